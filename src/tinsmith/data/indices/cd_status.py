"""Status of a CD index: the evidence for it."""

from __future__ import annotations

import enum


class CdStatus(enum.StrEnum):
    """Evidence for a CD index; only EMPTY leaves it undefined (null)."""

    OK = "ok"
    NO_REFS = "no_refs"  # no reference in the corpus: the index is exactly 1 by construction
    NO_WINDOW_CITERS = "no_window_citers"  # cited references, no citer in the window: exactly 0
    EMPTY = "empty"  # neither: undefined
