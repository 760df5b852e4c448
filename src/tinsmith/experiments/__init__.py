"""F6: what was run and why, as frozen values; the base models and slices they need."""
