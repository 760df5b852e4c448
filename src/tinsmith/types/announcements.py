"""What a server says as it starts: how the lines begin that tell what it is doing, and the line that it is ready.

The former go to its standard error, the latter to its standard output.
"""

from __future__ import annotations

from typing import Final

STARTING: Final = "starting: "
"""What is being done, for whoever waits."""

READY: Final = "tinsmith serve: "
"""Address and key follow: it answers."""
