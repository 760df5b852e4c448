"""What a cluster of any size would take: bytes and seconds in closed form, and runs on simulated workers."""
