"""Chats in a form common to all protocols: request, preparation, sampling, and replies as text and calls."""
