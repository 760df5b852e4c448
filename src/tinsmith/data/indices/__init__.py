"""Indices of citation graphs: CD and atypicality of every paper, over windows of years."""
