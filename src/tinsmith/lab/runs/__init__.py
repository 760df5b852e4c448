"""Folder of a run: its writers and readers."""
