"""F3: sessions, training, sampling, checkpoints."""
