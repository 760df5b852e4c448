"""Base models, training sessions, sampling, checkpoints, and engines spread over workers (floor F3)."""
