"""Losses that a user sent as a graph: read, checked, and computed with their gradient in float64."""
