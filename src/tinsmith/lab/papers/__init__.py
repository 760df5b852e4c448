"""Papers of a slice as what a run is about."""
