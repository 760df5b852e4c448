"""What supervised training, RL, and one after the other teach of any task."""
