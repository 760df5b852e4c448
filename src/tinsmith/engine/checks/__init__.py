"""Checks of the arithmetic before a model is served, on the shapes that the model has."""
