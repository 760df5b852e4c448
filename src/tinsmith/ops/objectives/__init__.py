"""Losses: formulas, settings, inputs, and the aggregation of a step's tokens."""
