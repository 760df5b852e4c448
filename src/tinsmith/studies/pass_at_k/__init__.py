"""pass@k of a base, of SFT and of GRPO: which questions each solves at all, by look-ups with a tool."""
