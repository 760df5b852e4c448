"""Puts this folder on the path, for modules that suites of several folders share."""
