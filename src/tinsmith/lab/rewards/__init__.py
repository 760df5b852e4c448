"""Rewards of labels, by the answer and by the set of answers."""
