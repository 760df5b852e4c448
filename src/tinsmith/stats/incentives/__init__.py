"""Which policy a reward makes optimal, computed before a run."""
