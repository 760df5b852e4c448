"""A loss on the answers of a small shell, and the shell."""
