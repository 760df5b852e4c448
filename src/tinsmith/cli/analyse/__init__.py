"""`tinsmith analyse`."""
