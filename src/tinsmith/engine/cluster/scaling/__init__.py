"""Cost of a cluster of any size: bytes and seconds in closed form, and runs on simulated workers."""
