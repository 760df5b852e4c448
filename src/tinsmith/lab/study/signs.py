"""What the literature saw of a method, and whether a study saw it too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.pages.tables import Table, table_of, text
from tinsmith.pages.wording import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """Something that the literature saw, and whether it was seen here."""

    expected: str
    came_out: bool
    told: str
    """The figures."""


def signs_words(signs: Sequence[Sign]) -> str:
    """Return what was expected, each with its figures."""
    return listed([f"{one.expected} ({one.told})" for one in signs])


def signs_sentence(signs: Sequence[Sign]) -> str:
    """Return which came out and which did not, without a full stop."""
    came = [one for one in signs if one.came_out]
    missed = [one for one in signs if not one.came_out]
    first = f"Of {len(signs)} signs that were expected {len(came)} came out"
    if came:
        first += f": {signs_words(came)}"
    if missed:
        first += f"; not: {signs_words(missed)}"
    return first


def signs_table(caption: str, signs: Sequence[Sign]) -> Table:
    """Return a row for each."""
    return table_of(
        caption,
        signs,
        ("Expected", lambda one: text(one.expected)),
        (text("Came out"), lambda one: text("yes" if one.came_out else "no")),
        (text("Figures"), lambda one: text(one.told)),
    )
