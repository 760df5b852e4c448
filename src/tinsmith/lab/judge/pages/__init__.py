"""Pages of runs on rubrics."""
