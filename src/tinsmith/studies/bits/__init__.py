"""What changes the bits, and by how much."""
