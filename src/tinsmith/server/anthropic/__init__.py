"""Anthropic's Messages API over any served model: how its clients ask, and how they are answered."""
