"""Post-training that can be run again: the Tinker training API on your own machine, bit for bit."""

__version__ = "0.1.0"
