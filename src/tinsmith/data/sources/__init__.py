"""Where a corpus comes from: one file per source and what they read with."""
