"""A task whose answers differ from what the base says by one word: which of several roads to take."""
