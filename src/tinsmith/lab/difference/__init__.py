"""Differences between two runs, bit for bit."""
