"""Papers of a slice as the subject of a run."""
