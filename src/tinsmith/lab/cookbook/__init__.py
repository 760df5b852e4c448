"""Environments written for the Tinker cookbook, trained on by the same loop."""
