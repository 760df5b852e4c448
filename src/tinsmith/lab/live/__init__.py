"""Watches of a run while it goes on, and what a person is told of it meanwhile."""
