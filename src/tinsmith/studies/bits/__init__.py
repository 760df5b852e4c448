"""Causes of other bits, and their size."""
