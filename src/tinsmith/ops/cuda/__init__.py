"""The canonical kernels on a GPU: compiled at first use, launched on torch's stream, with the CPU's bits."""
