"""What a loss on the answers of the environment adds to RL: a small shell whose answers can be learned."""
