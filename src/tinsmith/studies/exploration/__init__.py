"""Exploration between the batches of a task, and small houses to explore."""
