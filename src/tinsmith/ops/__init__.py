"""Arithmetic: native kernels and torch, losses, advantages, the sampling law (floor F1)."""
