"""Baselines of a slice: the scores of metadata, words and chance."""
