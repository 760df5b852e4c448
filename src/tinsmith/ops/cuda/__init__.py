"""Canonical kernels on a GPU: compiled on first use, launched on torch's stream, with the CPU's bits."""
