"""`tinsmith data`."""
