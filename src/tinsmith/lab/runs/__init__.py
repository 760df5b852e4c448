"""A run's folder: what is written into it and read from it."""
