"""The Tinker server of a run: its own, started and stopped, or one that is there already."""
