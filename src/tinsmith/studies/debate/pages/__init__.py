"""Pages of debates: one run, several, and over seeds."""
