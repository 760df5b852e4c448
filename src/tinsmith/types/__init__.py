"""F0: frozen values, errors, seeds and fingerprints; nothing but the standard library and numpy."""
