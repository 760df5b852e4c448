"""Training at a few uncertain positions from rollouts that are drawn once, beside GRPO."""
