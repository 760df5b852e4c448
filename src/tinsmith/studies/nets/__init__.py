"""Small nets in plain torch, trained from scratch: measurements outside the promise of bits."""
