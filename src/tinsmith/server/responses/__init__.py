"""OpenAI's Responses API over any served model, as far as agents use it; it keeps nothing between requests."""
