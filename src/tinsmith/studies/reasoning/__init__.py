"""Puzzles without end: the generators of `reasoning_gym`, each with its own scorer."""
