"""Monitoring of a run in progress, and its messages to a person."""
