"""F6: the Tinker service over HTTP."""
