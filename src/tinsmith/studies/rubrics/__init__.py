"""Instructions with rubrics: RLVR."""
