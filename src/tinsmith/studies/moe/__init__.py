"""Routes of a mixture in other batches, by our arithmetic and by others'."""
