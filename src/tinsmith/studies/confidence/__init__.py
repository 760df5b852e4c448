"""Confidence along the reasoning, rewarded for rising, and numbers to reason about."""
