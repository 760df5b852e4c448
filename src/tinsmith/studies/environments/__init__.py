"""Environments of the `verifiers` library: rows as items, rubrics as reward terms, turns as replies."""
