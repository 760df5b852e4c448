"""What differs between two runs, bit for bit."""
