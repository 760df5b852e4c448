"""Tasks written by users: one file, or a value in Python."""
