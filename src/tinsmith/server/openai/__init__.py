"""OpenAI-compatible `/v1`."""
