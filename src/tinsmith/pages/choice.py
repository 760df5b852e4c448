"""Choice of the rows that a page shows where there are more than it can hold, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import TypeVar

from tinsmith.pages.wording import counted

T = TypeVar("T")


def in_turn(kinds: Iterable[Sequence[T]], most: int) -> Iterator[T]:
    """Return in turn one of every kind until there are enough: rare kinds whole, frequent ones in part.

    >>> list(in_turn([[1, 2, 3], [4]], 3))
    [1, 4, 2]
    """
    return islice((one for turn in zip_longest(*kinds) for one in turn if one is not None), most)


def choice_words(shown: int, known: int, what: str, kinds: str) -> str:
    """Return which of `known` rows are shown, chosen in turn of every kind by a hash of their names.

    >>> choice_words(2, 2, "item", "result")
    'All 2 items are here.'
    """
    if shown == known:
        return f"All {counted(known, what)} are here."
    return (
        f"{shown:,} of {counted(known, what)} are here: in turn one of every {kinds}, within each by a hash of its "
        "name, so that rare results are complete and frequent ones are a sample. Shares among them are not those of "
        "the run."
    )
