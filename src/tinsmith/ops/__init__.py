"""F1: the arithmetic: native kernels and torch, losses, advantages, the sampling law."""
