"""Untrusted JSON: parsed with limits on its size and depth, or rejected with a ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

MAX_DEPTH: Final = 64
"""Most levels of nesting: deeper values would overflow the recursion of later readers."""
UNREADABLE: Final = (ValueError, RecursionError)
"""Exceptions of JSON parsers, including msgspec's: its errors are ValueErrors, and deep nesting a RecursionError."""
LARGEST: Final = 256 << 20
"""Most bytes of a file."""


def parse_json(text: str | bytes, *, parse_float: Callable[[str], Any] | None = None) -> object:
    """Parse a JSON text.

    Raises:
        ValueError: it is not JSON, repeats a key in an object, has a number with too many digits, or is nested too
            deeply.
    """
    try:
        value: object = json.loads(text, parse_float=parse_float, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _depth_exceeds(value, MAX_DEPTH):
        raise ValueError(_TOO_DEEP)
    return value


def read_json(file: Path, *, parse_float: Callable[[str], Any] | None = None) -> object:
    """Parse a JSON file in UTF-8, with or without a byte order mark.

    Raises:
        OSError: it cannot be read.
        ValueError: see `parse_json`; or the file is too large.
    """
    size = file.stat().st_size
    if size > LARGEST:
        raise ValueError(f"the file has {size} bytes; at most {LARGEST} are read")
    return parse_json(file.read_text(encoding="utf-8-sig"), parse_float=parse_float)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):  # parsers differ on which of them counts
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise ValueError(f"a key stands there twice: {twice[:50]!r}")
    return found


_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"


def _depth_exceeds(value: object, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [member for each in level for member in _members(each)]
        if not level:
            return False
    return True


def _members(value: object) -> Sequence[object]:
    """Return the lists and objects directly inside a value."""
    if isinstance(value, dict):
        held = list(cast("Mapping[str, object]", value).values())
    elif isinstance(value, list):
        held = cast("list[object]", value)
    else:
        return ()
    return [each for each in held if isinstance(each, (dict, list))]
