"""Foreign text made safe for a terminal."""

from __future__ import annotations

import logging
import re
from typing import Final

_ACTING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters to escape: C0 except tab and line feed, DEL, C1, bidirectional marks, line separators, lone surrogates."""


def visible(text: object) -> str:
    r"""Escape every character that controls a terminal; JSON stays JSON of the same value.

    >>> print(visible("a\x1b[31mb\u202ec"))
    a\u001b[31mb\u202ec
    """
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))


class VisibleFormatter(logging.Formatter):
    """Log formatter that escapes text of clients, servers and models."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's lines."""
        return visible(super().format(record))
