"""The search: what it finds where lines help, that it loses nothing where they do not, and what it never does twice."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import pytest

from tinsmith.lab.prompt_search import Document, Earned, Edit, Search, Searched, SearchSettings, Wish, grammar
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

GOOD, IDLE, BAD = ("good one", "good two", "good three"), ("idle one", "idle two"), ("bad one",)
START = ("bad one", "idle one")
TRAIN = tuple(f"train {place}" for place in range(20))
SELECTION = tuple(f"select {place}" for place in range(40))
Worth = Callable[[Document], float]


def helped(document: Document) -> float:
    """A chance that good lines raise and bad ones lower."""
    return 0.3 + 0.2 * sum(line in GOOD for line in document) - 0.2 * ("bad one" in document)


def nothing_helps(document: Document) -> float:
    del document
    return 0.5


@dataclass
class Made:
    """Answers that are right with a chance that hangs on the document; drawn anew with each seed and document."""

    worth: Worth
    calls: list[tuple[Document, tuple[str, ...], int]] = field(
        default_factory=list[tuple[Document, tuple[str, ...], int]]
    )
    failing: frozenset[str] = frozenset()

    def __call__(self, document: Document, items: Sequence[str], seed: int) -> Earned:
        self.calls.append((document, tuple(items), seed))
        return {
            item: Fraction(derive(seed, item, *document) % 1000 < 1000 * self.worth(document))
            for item in items
            if item not in self.failing
        }


def searched(made: Made, seed: int = 0, **settings: int) -> Searched:
    return Search(
        train=TRAIN,
        selection=SELECTION,
        prompts={name: name for name in (*TRAIN, *SELECTION)},
        score=made,
        proposer=grammar((*GOOD, *IDLE, *BAD)),
        settings=SearchSettings(seed=seed, **settings),
    ).run(START)


def test_lines_that_help_are_found_and_the_one_that_harms_goes() -> None:
    found = searched(Made(helped), steps=16, gate=20).found
    assert sum(line in GOOD for line in found) >= 2
    assert "bad one" not in found


def test_two_searches_are_the_same_and_another_seed_is_another_search() -> None:
    first, second = searched(Made(helped)), searched(Made(helped))
    assert first == second
    assert first.steps != searched(Made(helped), seed=1).steps


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("worth", [helped, nothing_helps])
def test_nothing_is_ever_lost_on_selection(worth: Worth, seed: int) -> None:
    one = searched(Made(worth), seed=seed, steps=6, gate=10)
    assert one.after >= one.before
    assert one.found == one.reached or one.found == one.start
    assert (one.after > one.before) == (one.found != one.start)


def test_luck_at_a_gate_is_stopped_by_the_last_one() -> None:
    ends = [searched(Made(nothing_helps), seed=seed, steps=8, gate=4) for seed in range(12)]
    assert any(one.reached != one.start and one.found == one.start for one in ends)


def test_the_gate_draws_fresh_questions_asks_both_the_same_and_lets_only_gains_through() -> None:
    made = Made(nothing_helps)
    one = searched(made, steps=12, gate=10)
    gates = [step for step in one.steps if step.made]
    assert len(gates) > 2
    assert all(first.asked != second.asked for first, second in pairwise(gates))
    for step in gates:
        assert step.accepted == (step.after > step.before)
        requests = [call for call in made.calls if call[1] == step.asked]
        assert len({seed for _, _, seed in requests}) == 1
        assert len(requests) == 2
    assert {step.accepted for step in gates} == {True, False}


def test_what_the_gate_refused_is_never_proposed_again() -> None:
    one = searched(Made(nothing_helps), steps=30, gate=10, candidates=20)
    assert len(one.rejected) > 3
    assert len(set(one.rejected)) == len(one.rejected)
    assert one.again == 0


def test_proposing_what_was_refused_would_be_counted() -> None:
    one = searched(Made(nothing_helps), steps=12, gate=10)
    first = next(step for step in one.steps if step.made and not step.accepted)
    doubled = Searched(
        start=one.start,
        found=one.found,
        reached=one.reached,
        before=one.before,
        after=one.after,
        steps=(first, first),
        answered=one.answered,
    )
    assert doubled.again == len(first.made)


def test_fewer_edits_are_made_at_once_as_it_goes_on() -> None:
    settings = SearchSettings(steps=9, most_edits=4, least_edits=2)
    counts = [settings.edits_at(step) for step in range(9)]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (4, 2)
    one = searched(Made(helped), steps=9)
    assert all(len(step.made) <= step.most_edits for step in one.steps)


def test_items_that_fail_under_either_document_are_left_out_of_both() -> None:
    one = searched(Made(helped, failing=frozenset(SELECTION)), steps=3)
    assert (one.accepted, one.found, one.before, one.after) == (0, START, 0.0, 0.0)


def test_answers_are_counted() -> None:
    made = Made(helped)
    assert searched(made, steps=4).answered == sum(len(items) for _, items, _ in made.calls)


def test_a_proposer_that_has_nothing_to_say_changes_nothing() -> None:
    def silent(wish: Wish) -> tuple[Edit, ...]:
        del wish
        return ()

    one = Search(
        train=TRAIN,
        selection=SELECTION,
        prompts={name: name for name in TRAIN},
        score=Made(helped),
        proposer=silent,
        settings=SearchSettings(steps=2),
    ).run(START)
    assert one.found == START
    assert [step.made for step in one.steps] == [(), ()]


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="most_edits"):
        SearchSettings(most_edits=1, least_edits=2)
    with pytest.raises(ConfigError, match="gate"):
        SearchSettings(gate=0)
    empty = Search(
        train=(), selection=SELECTION, prompts={}, score=Made(helped), proposer=grammar(GOOD), settings=SearchSettings()
    )
    with pytest.raises(ConfigError, match="items"):
        empty.run(START)
