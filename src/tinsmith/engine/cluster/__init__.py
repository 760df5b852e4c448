"""More than one machine: what is done elsewhere, and what it is done on."""
