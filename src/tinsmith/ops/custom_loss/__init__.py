"""Losses that a user sends as a graph: parsed, checked, and computed with their gradient in float64."""
