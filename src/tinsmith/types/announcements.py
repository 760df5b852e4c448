"""Lines that a server prints as it starts: the prefixes of its progress, and the line that it is ready.

The former go to its standard error, the latter to its standard output.
"""

from __future__ import annotations

from typing import Final

STARTING: Final = "starting: "
"""Prefix of a line about the step in progress."""

READY: Final = "tinsmith serve: "
"""Address and key follow: it answers."""
