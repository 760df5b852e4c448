"""Puts this folder on the import path, for the modules that several suites share; the same examples everywhere."""

from hypothesis import settings

# A busy machine is no finding, and an example that only one machine drew is none that another can look at.
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")
