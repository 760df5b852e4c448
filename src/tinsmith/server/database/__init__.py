"""The server's state in one SQLite file."""
