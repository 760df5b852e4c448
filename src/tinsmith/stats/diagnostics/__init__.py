"""What a run's groups and answers say of its training: dead groups, reward spread, how much answers tell of prompts."""
