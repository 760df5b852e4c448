"""What looks on while a policy is trained: collapse, determinism, idle experts, and the alarms they raise."""
