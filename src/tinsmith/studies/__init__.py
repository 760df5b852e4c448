"""F6: one folder a subject, with everything that only it needs."""
