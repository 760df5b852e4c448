"""Whether a mixture's routes stand still: the same tokens in other batches, by our arithmetic and by others'."""
