"""Baselines of a slice: what metadata, words and chance get."""
