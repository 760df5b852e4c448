"""The checks by topic, in the order of the table."""
