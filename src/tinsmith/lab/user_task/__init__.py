"""A task of the user's own: one file, or a value in Python."""
