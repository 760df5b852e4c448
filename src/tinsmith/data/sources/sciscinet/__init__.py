"""SciSciNet's tables."""
