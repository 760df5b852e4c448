"""Answers that are labels: the task, its prompt and contract, evaluation."""
