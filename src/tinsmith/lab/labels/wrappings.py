"""What models put around an answer: thoughts between tags, code fences, friendly sentences."""

from __future__ import annotations

import re
from typing import Final

FENCE: Final = "```"
_THINK: Final = re.compile(r"</?think\b", re.IGNORECASE)
_THINK_TAG: Final = re.compile(r"<(/?)think\b[^<>]{0,80}>", re.IGNORECASE)


def has_think(text: str) -> bool:
    """Whether a `<think>` or `</think>` stands anywhere, whole or cut off, in any case."""
    return _THINK.search(text) is not None


def without_think(text: str) -> str:
    """Return the text without what stands between think tags.

    A closing tag without an opening one closes a thought that began before the text; an opening one
    without a closing one runs to the end. Linear in the text's length.

    >>> without_think("<think>a</think>b<THINK>c")
    'b'
    """
    kept: list[str] = []
    start, thinking = 0, False
    for tag in _THINK_TAG.finditer(text):
        closing = tag[1] == "/"
        if closing and not thinking:
            kept.clear()
        elif not closing and not thinking:
            kept.append(text[start : tag.start()])
        thinking = not closing
        start = tag.end()
    if not thinking:
        kept.append(text[start:])
    return "".join(kept)


def outer_object(text: str) -> str | None:
    """Return what stands from the first `{` to the last `}` after all thoughts; None without both.

    Two objects side by side stay together, and are no JSON: nobody guesses which one is meant.

    >>> outer_object('Here you are: {"a": 1}. Bye!')
    '{"a": 1}'
    """
    bare = without_think(text)
    first, last = bare.find("{"), bare.rfind("}")
    return bare[first : last + 1] if 0 <= first < last else None
