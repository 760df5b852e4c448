"""Frozen values, errors, seeds and fingerprints, on the standard library and numpy only (floor F0)."""
