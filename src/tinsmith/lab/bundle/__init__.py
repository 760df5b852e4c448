"""A run or a study as one file that others can read and check."""
