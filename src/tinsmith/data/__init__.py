"""Citation data: sources, the corpus, metrics on the full graph, labels, slices, baselines, the card (floor F3)."""
