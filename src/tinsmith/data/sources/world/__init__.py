"""The synthetic world: papers with planted signals."""
