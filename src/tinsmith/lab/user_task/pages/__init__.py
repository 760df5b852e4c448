"""The pages of runs on a user's own task, of one and of several, and what stands on them."""
