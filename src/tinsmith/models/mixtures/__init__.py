"""F2: mixtures of experts as others write them: what a config says of one, and weights of all experts in one tensor."""
