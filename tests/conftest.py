"""Puts this folder on the import path, for the modules that several suites share."""
