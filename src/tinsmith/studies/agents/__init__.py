"""Studies of several rollouts or several agents on one item."""
