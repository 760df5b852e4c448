"""Sources of a corpus, one file each, and their readers."""
