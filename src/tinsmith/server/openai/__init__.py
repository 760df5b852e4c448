"""The OpenAI-compatible `/v1`."""
