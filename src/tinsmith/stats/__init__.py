"""F3: statistics that forbid claims the data do not carry: intervals, tests, claims, collapse."""
