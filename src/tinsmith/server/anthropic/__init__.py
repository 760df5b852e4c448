"""Anthropic's Messages API over any served model."""
