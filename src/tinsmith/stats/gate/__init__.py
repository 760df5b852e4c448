"""The claim gate: which claims there are, what each asks for, and which of them hold."""
