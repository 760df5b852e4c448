"""The names that `rubric_quality` and its page agree on."""

from __future__ import annotations

from typing import Final

RUBRIC_QUALITY: Final = "rubric_quality"
"""The measurement's name, on the command line and in its folder."""
RULES: Final = "rules"
"""The name of the judge that knows surfaces and rules."""
