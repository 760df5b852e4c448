"""A document of lines that stands before every question, its edits, and who proposes them: a grammar, or a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations
from random import Random
from typing import Final

import msgspec

from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

Document = tuple[str, ...]
"""Lines, each of which stands once."""

MOST_LINES: Final = 16
"""Of a document; nothing is added to one that has so many."""
LONGEST_LINE: Final = 160
"""Characters of a line that a model may propose."""


class Change(StrEnum):
    """Kinds of edits."""

    ADD = "add"
    DELETE = "delete"
    REPLACE = "replace"
    SWAP = "swap"


_BETWEEN: Final = {Change.ADD: "", Change.DELETE: "", Change.REPLACE: " => ", Change.SWAP: " <> "}
"""Stands between the two lines of an edit in words."""


class Edit(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One edit; it names lines and no places, so that several can be made one after the other."""

    change: Change
    at: str = ""
    """The line that is deleted, replaced or swapped."""
    line: str = ""
    """The line that is added as the last one, put in place of `at`, or swapped with it."""

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.change}: {self.at}{_BETWEEN[self.change]}{self.line}"

    def applied(self, document: Document) -> Document | None:
        """Return the document after it; None where it cannot be made, or would make no document."""
        lines = list(document)
        there, new = self.at in lines, self.line not in lines
        match self.change:
            case Change.ADD if new and self.line and len(lines) < MOST_LINES:
                return (*document, self.line)
            case Change.DELETE if there:
                return tuple(line for line in lines if line != self.at)
            case Change.REPLACE if there and new and self.line:
                return tuple(self.line if line == self.at else line for line in lines)
            case Change.SWAP if there and not new and self.at != self.line:
                other = {self.at: self.line, self.line: self.at}
                return tuple(other.get(line, line) for line in lines)
            case _:
                return None


def edited(document: Document, edits: tuple[Edit, ...]) -> tuple[Document, tuple[Edit, ...]]:
    """Make edits one after the other, and say which were made; those that can no longer be are left out."""
    made: list[Edit] = []
    for edit in edits:
        after = edit.applied(document)
        if after is not None:
            document = after
            made.append(edit)
    return document, tuple(made)


def placed(document: Document, start: Document, prompt: str) -> str:
    """Return a prompt that begins with another document than that which it begins with.

    >>> placed(("Be brief.",), (), "Which door?").splitlines()
    ['Be brief.', 'Which door?']
    """
    head = _head(start)
    if not prompt.startswith(head):
        what = "a prompt does not begin with the document that is to be changed"
        raise ConfigError(what, field="document", value=prompt[:60], allowed=head)
    return _head(document) + prompt.removeprefix(head)


def _head(document: Document) -> str:
    return "".join(f"{line}\n" for line in document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Request to a proposer."""

    document: Document
    examples: Sequence[tuple[str, float]]
    """Questions that were answered under the document of now, and what they earned; those that earned least first."""
    rejected: AbstractSet[Edit]
    count: int
    seed: int


Proposer = Callable[[Wish], Sequence[Edit]]
"""Returns different edits that can be made, none of them rejected before; at most as many as wished."""


def possible(edits: Sequence[Edit], wish: Wish) -> tuple[Edit, ...]:
    """Return each edit once that can be made and was not rejected, at most as many as wished.

    A swap is the same whichever of its lines is named first.
    """
    kept: dict[Edit, None] = {}
    for edit in edits:
        if edit.change is Change.SWAP and edit.line < edit.at:
            edit = Edit(change=Change.SWAP, at=edit.line, line=edit.at)
        if edit not in wish.rejected and edit.applied(wish.document) is not None:
            kept.setdefault(edit)
    return tuple(kept)[: wish.count]


@dataclass(frozen=True, slots=True)
class Grammar:
    """Draws edits: first which kind, as likely one as the other, then the lines; the same by the same seed."""

    bank: tuple[str, ...]

    def __call__(self, wish: Wish) -> tuple[Edit, ...]:
        random, document = Random(derive(wish.seed, "edits")), wish.document
        new = [line for line in self.bank if line not in document]
        kinds = [
            [Edit(change=Change.ADD, line=line) for line in new],
            [Edit(change=Change.DELETE, at=at) for at in document],
            [Edit(change=Change.REPLACE, at=at, line=line) for at in document for line in new],
            [Edit(change=Change.SWAP, at=at, line=line) for at, line in combinations(document, 2)],
        ]
        left = [list(possible(edits, replace(wish, count=2**31))) for edits in kinds]
        drawn: list[Edit] = []
        while len(drawn) < wish.count and (some := [edits for edits in left if edits]):
            edits = random.choice(some)
            drawn.append(edits.pop(random.randrange(len(edits))))
        return tuple(drawn)


@dataclass(slots=True)
class AskedModel:
    """Asks a model for edits, shows it what was answered worst and what was rejected, and reads its lines strictly."""

    ask: Callable[[str, int], str]
    """Returns what the model writes after a prompt, with a seed."""
    shown: int = 3
    """Examples, and rejected edits, that it is shown."""
    unreadable: int = field(default=0)
    """Lines that were no edit, or one that could not be made."""

    def __call__(self, wish: Wish) -> tuple[Edit, ...]:
        lines = self.ask(self.prompt(wish), derive(wish.seed, "asked")).splitlines()
        lines = [line for line in lines if line.strip()]
        read = [edit for line in lines if (edit := read_edit(line)) is not None]
        found = possible(read, wish)
        self.unreadable += len(lines) - len(found)
        return found

    def prompt(self, wish: Wish) -> str:
        """Return what it is asked."""
        worst = [f"{prompt} (earned {earned:g})" for prompt, earned in wish.examples[: self.shown]]
        rejected = [f"- {edit}" for edit in sorted(wish.rejected)[-self.shown :]]
        return "\n".join(
            [
                "These instructions stand before every question:",
                *[f"- {line}" for line in wish.document],
                *(["These were answered worst:", *worst] if worst else []),
                *(["These edits did not help:", *rejected] if rejected else []),
                f"Write up to {wish.count} edits of the instructions, one a line, in these forms:",
                "add: NEW LINE",
                "delete: LINE",
                "replace: LINE => NEW LINE",
                "swap: LINE <> LINE",
            ]
        )


def read_edit(text: str) -> Edit | None:
    """Read an edit as `str` writes it; None where it is none.

    >>> str(read_edit("- add: Be brief."))
    'add: Be brief.'
    """
    head, colon, rest = text.strip().removeprefix("- ").partition(":")
    name, rest = head.strip().lower(), rest.strip()
    if not colon or not rest or name not in tuple(Change) or len(text) > 2 * LONGEST_LINE:
        return None
    change = Change(name)
    at, line = (rest, "") if change is Change.DELETE else ("", rest)
    if parts := _BETWEEN[change].strip():
        at, _, line = (part.strip() for part in rest.partition(parts))
        if not at or not line:
            return None
    return Edit(change=change, at=at, line=line) if len(line) <= LONGEST_LINE else None
