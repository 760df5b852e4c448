"""Changes of a model by training, token by token, and how much of its gain they explain."""
