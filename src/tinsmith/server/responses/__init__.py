"""OpenAI's Responses API over any served model, as far as agents use it; without storage between requests."""
