"""Edits of a document: what each makes, what cannot be made, and how a prompt begins with another one."""

import pytest

from tinsmith.lab.prompt_search import (
    MOST_LINES,
    Change,
    Document,
    Edit,
    ModelProposer,
    Wish,
    edited,
    grammar,
    placed,
    read_edit,
)
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


BANK = ("a", "b", "c", "d")
EVERY = 2 + 2 + 4 + 1
"""Edits of a document of two of the four lines: adds, deletes, replacements, the one swap."""


def wish(seed: int = 0, count: int = 5, rejected: frozenset[Edit] = frozenset()) -> Wish:
    worst = (("Which door?", 0.0),)
    return Wish(document=("a", "b"), examples=worst, rejected=rejected, count=count, seed=seed)


def test_a_grammar_draws_the_same_by_the_same_seed_and_others_by_another() -> None:
    proposer = grammar(BANK)
    assert proposer(wish()) == proposer(wish())
    assert len({proposer(wish(seed)) for seed in range(8)}) > 1


def test_a_grammar_knows_every_edit_and_proposes_each_once() -> None:
    found = grammar(BANK)(wish(count=100))
    assert len(found) == len(set(found)) == EVERY
    assert {edit.change for edit in found} == set(Change)
    assert all(edit.applied(("a", "b")) is not None for edit in found)


def test_what_was_rejected_is_not_proposed_again() -> None:
    every = grammar(BANK)(wish(count=100))
    for edit in every:
        assert edit not in grammar(BANK)(wish(count=100, rejected=frozenset({edit})))
    assert grammar(BANK)(wish(rejected=frozenset(every))) == ()


@pytest.mark.parametrize("edit", grammar(BANK)(wish(count=100)), ids=str)
def test_an_edit_is_read_as_it_is_written(edit: Edit) -> None:
    assert read_edit(str(edit)) == edit


@pytest.mark.parametrize(
    "text", ["", "add:", "say: a", "replace: a", "replace: => b", "swap: a <>", "add a", f"add: {'x' * 400}"]
)
def test_what_is_no_edit_is_not_read(text: str) -> None:
    assert read_edit(text) is None


def test_a_model_is_shown_what_was_rejected_and_its_unreadable_lines_are_counted() -> None:
    requests: list[str] = []
    refused = Edit(change=Change.DELETE, at="b")

    def ask(prompt: str, seed: int) -> str:
        del seed
        requests.append(prompt)
        return "delete: b\nswap: b <> a\nswap: a <> b\nperhaps: c\nadd: c"

    model = ModelProposer(ask)
    found = model(wish(rejected=frozenset({refused})))
    assert [str(edit) for edit in found] == ["swap: a <> b", "add: c"]
    assert model.unreadable == 3
    assert "delete: b" in requests[0]
    assert "Which door? (earned 0)" in requests[0]
