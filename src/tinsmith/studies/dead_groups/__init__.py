"""What RL can do with a model that fails: always at the same questions, or at random."""
