"""Checks of the arithmetic on a model's own shapes, run before it is served."""
