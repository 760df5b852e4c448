"""Synthetic world: papers with planted signals."""
