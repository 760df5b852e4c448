"""Boundaries of questions with a tool that a model answers at all, and the questions."""
