"""Comparison of column names, and suggestions for missing columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches


def plain(name: str) -> str:
    """Return a column's name without case, underscores and spaces.

    >>> plain("Atyp_10pct_Z")
    'atyp10pctz'
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def suggested(columns: Sequence[str], names: Sequence[str]) -> str:
    """Return a suggestion for a missing column: rename the one that resembles it, if any does."""
    for name in names:
        inside = [column for column in columns if column and (name in column or column in name)]
        close = get_close_matches(name, columns, 1, 0.6) or inside
        if close:
            return f'name a column "{names[0]}"; is "{close[0]}" that one?'
    return f'name a column "{names[0]}"; there are {", ".join(columns)[:200] or "none"}'
