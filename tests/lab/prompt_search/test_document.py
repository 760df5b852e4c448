"""Edits of a document: what each makes, what cannot be made, and how a prompt begins with another one."""

from __future__ import annotations

import pytest

from tinsmith.lab.prompt_search.document import MOST_LINES, Change, Document, Edit, edited, placed
from tinsmith.types.errors import ConfigError

ADD, DELETE, REPLACE, SWAP = Change.ADD, Change.DELETE, Change.REPLACE, Change.SWAP


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        (Edit(change=ADD, line="c"), ("a", "b", "c")),
        (Edit(change=DELETE, at="a"), ("b",)),
        (Edit(change=REPLACE, at="a", line="c"), ("c", "b")),
        (Edit(change=SWAP, at="a", line="b"), ("b", "a")),
        (Edit(change=ADD, line="a"), None),
        (Edit(change=ADD, line=""), None),
        (Edit(change=DELETE, at="c"), None),
        (Edit(change=REPLACE, at="a", line="b"), None),
        (Edit(change=SWAP, at="a", line="c"), None),
        (Edit(change=SWAP, at="a", line="a"), None),
    ],
)
def test_an_edit_makes_a_document_or_none(edit: Edit, after: Document | None) -> None:
    assert edit.applied(("a", "b")) == after


def test_nothing_is_added_to_a_document_that_is_full() -> None:
    full = tuple(map(str, range(MOST_LINES)))
    assert Edit(change=ADD, line="more").applied(full) is None


def test_of_several_edits_those_that_can_no_longer_be_made_are_left_out() -> None:
    both = (Edit(change=DELETE, at="a"), Edit(change=REPLACE, at="a", line="c"))
    assert edited(("a", "b"), both) == (("b",), both[:1])


def test_a_prompt_begins_with_another_document() -> None:
    assert placed(("x",), ("a", "b"), "a\nb\nWhich?") == "x\nWhich?"
    assert placed((), ("a",), "a\nWhich?") == "Which?"


def test_a_prompt_that_begins_with_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="document"):
        placed((), ("a",), "Which?")
