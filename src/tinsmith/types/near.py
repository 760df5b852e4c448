"""Errors for names that do not exist: the likeliest that were meant come first, and long lists are only referred to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from tinsmith.types.errors import ConfigError

_LISTED: Final = 12
"""Most names that a message lists."""


def near(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the names that are most like one that was typed, the likeliest first.

    >>> near("stpes", ["seed", "steps", "stop_after"])
    ['steps']
    """
    return difflib.get_close_matches(name, sorted(known), n=count, cutoff=0.55)


def perhaps(name: str, known: Iterable[str]) -> str | None:
    """Say what was probably meant; None where nothing is like it."""
    return f"perhaps {' or '.join(found)}" if (found := near(name, known)) else None


def no_such(what: str, *, field: str, value: object, name: str, known: Iterable[str], listed_by: str) -> ConfigError:
    """Return the error for a name that nothing has; `listed_by` is the command that lists all of them."""
    names = sorted(known)
    meant = perhaps(name, names)
    allowed = ", ".join(names) if len(names) <= _LISTED else None
    todo = [*([meant] if meant else []), *([] if allowed else [f"{listed_by} lists all {len(names)}"])]
    return ConfigError(
        f"there is no such {what}", field=field, value=value, allowed=allowed, fix="; ".join(todo) or None
    )
