"""OpenAlex: its snapshot and its API."""
