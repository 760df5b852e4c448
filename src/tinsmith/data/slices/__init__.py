"""Slices: balanced or natural samples of labelled papers, frozen."""
