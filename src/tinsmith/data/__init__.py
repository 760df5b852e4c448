"""F3: citation data: sources, the corpus, metrics on the full graph, labels, slices, baselines, the card."""
