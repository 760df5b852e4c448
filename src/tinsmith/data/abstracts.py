"""Abstracts as inverted indexes (word -> positions) in OpenAlex's form, converted to text and back.

A gap in the positions closes up (`{"a": [0], "b": [2]}` is "a b"); of two words that claim one position the first in
the index keeps it, as in the source notes. Impossible positions are rejected before anything of their size is
allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import cast

from tinsmith.types.errors import DataError

MAX_POSITION = 1_000_000
"""Bound on positions: the longest texts that OpenAlex stores as abstracts have some 10**5 words."""


def from_inverted_index(index: Mapping[str, Sequence[int]]) -> str | None:
    """Return the text of an inverted index; None if it has no words.

    >>> from_inverted_index({"Hello": [0, 2], "world": [1]})
    'Hello world Hello'

    Raises:
        DataError: a position is negative, not an integer, or MAX_POSITION or more.
    """
    every = list(chain.from_iterable(index.values()))
    if not every:
        return None
    # Nearly every index is dense: its positions fill as many slots, without a check at each; whatever leaves a
    # hole or fits nowhere goes the slow way.
    count = len(every)
    slots = cast("list[str]", [None] * count)
    try:
        if min(every) < 0:
            return _sorted(index)
        for word, positions in index.items():
            if len(positions) == 1:  # most are, and this is the inner loop of reading OpenAlex
                slots[positions[0]] = word
            else:
                for position in positions:
                    slots[position] = word
        return " ".join(slots)  # a hole is a TypeError
    except (IndexError, TypeError):
        return _sorted(index)


def _sorted(index: Mapping[str, Sequence[int]]) -> str:
    words: dict[int, str] = {}
    for word, positions in index.items():
        for position in positions:
            if type(position) is not int or not 0 <= position < MAX_POSITION:
                raise DataError(
                    "an abstract has an impossible word position",
                    field="position",
                    value=position,
                    allowed=f"integers from 0 to {MAX_POSITION - 1}",
                )
            words.setdefault(position, word)
    return " ".join(words[position] for position in sorted(words))


def to_inverted_index(text: str) -> dict[str, list[int]]:
    """Return the inverted index of `text`, split into words at white space.

    >>> to_inverted_index("Hello world Hello")
    {'Hello': [0, 2], 'world': [1]}
    """
    index: dict[str, list[int]] = {}
    for position, word in enumerate(text.split()):
        index.setdefault(word, []).append(position)
    return index
