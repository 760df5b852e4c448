"""Which whole numbers can stand behind published rates."""
