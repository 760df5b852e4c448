"""A document of lines that stands before every question, and the edits that there are of one."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from tinsmith.types.errors import ConfigError

Document = tuple[str, ...]
"""Lines, each of which stands once."""

MOST_LINES: Final = 16
"""Of a document; nothing is added to one that has so many."""


class Change(StrEnum):
    """Kinds of edits."""

    ADD = "add"
    DELETE = "delete"
    REPLACE = "replace"
    SWAP = "swap"


class Edit(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One edit; it names lines and no places, so that several can be made one after the other."""

    change: Change
    at: str = ""
    """The line that is deleted, replaced or swapped."""
    line: str = ""
    """The line that is added as the last one, put in place of `at`, or swapped with it."""

    def __str__(self) -> str:
        """Return it in words."""
        match self.change:
            case Change.ADD:
                return f"add: {self.line}"
            case Change.DELETE:
                return f"delete: {self.at}"
            case Change.REPLACE:
                return f"replace: {self.at} => {self.line}"
            case Change.SWAP:
                return f"swap: {self.at} <> {self.line}"

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
    """Make edits one after the other; those that can no longer be made are left out.

    Returns:
        The document, and the edits that were made.
    """
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
        raise ConfigError(
            "a prompt does not begin with the document that is to be changed",
            field="document",
            value=prompt[:60],
            allowed=head,
        )
    return _head(document) + prompt.removeprefix(head)


def _head(document: Document) -> str:
    return "".join(f"{line}\n" for line in document)
