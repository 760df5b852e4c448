"""F5: what drives an engine through the Tinker API."""
