"""Exploration that is interleaved with a task: what an agent knows of its surroundings, and how it recovers."""
