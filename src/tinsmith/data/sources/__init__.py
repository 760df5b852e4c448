"""Sources of a corpus, one module or package each, and their readers."""
