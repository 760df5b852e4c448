"""Whether a model is sure of its answer before it has reasoned, and a reward for confidence that rises."""
