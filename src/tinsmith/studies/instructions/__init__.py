"""Instructions that a program can check: prompts of our own, with the checkers of IFEval and IFBench."""
