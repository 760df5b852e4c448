"""A user's own task: items, a prompt and a reward, in one Python file of theirs."""
