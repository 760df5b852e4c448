"""Rewards written behind a barrier, or with the construction of their tasks in sight, and rooms to change."""
