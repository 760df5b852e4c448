"""Judges: models that are asked whether an answer meets its criteria."""
