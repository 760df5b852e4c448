"""The cards of a corpus and of a slice."""
