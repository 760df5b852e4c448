"""Answers that one policy writes and another corrects: against laws whose outcome is known."""

from collections.abc import Sequence
from typing import cast

import msgspec
import pytest
from fake_policies import END, TablePolicy

from tinsmith.lab.service.served_policy import ServedPolicy
from tinsmith.studies.microscope.looking import Decoding, Fate, Line, LookSettings, Pair, Place, Rule, write_corrected

PROMPT = (6, 6)
ENDS_AFTER = len(PROMPT) + 4
SETTINGS = LookSettings(samples=1, max_tokens=8, temperature=1.0, threshold=0.5, seed=0, data="")
Written = tuple[list[int], int]
"""The tokens of an answer, and how many of them are the second's."""


def law(fork: tuple[float, ...], at: int = 1) -> TablePolicy:
    """Write 5, but at one place of the answer draw from `fork`; end after four tokens."""

    def probabilities(text: tuple[int, ...]) -> tuple[float, ...]:
        place = len(text) - len(PROMPT)
        if len(text) >= ENDS_AFTER:
            return (1.0, 0, 0, 0, 0, 0, 0)
        return fork if place == at else (0, 0, 0, 0, 0, 1.0, 0)

    return TablePolicy(probabilities)


BASE = law((0, 0.0, 0.4, 0.3, 0.3, 0, 0))
TUNED = law((0, 0.0, 0.0, 0.0, 1.0, 0, 0))
ELSEWHERE = law((0, 0.0, 0.0, 0.0, 0.0, 0, 1.0))


def pair(first: TablePolicy, second: TablePolicy) -> Pair:
    return Pair(cast(ServedPolicy, first), cast(ServedPolicy, second), str)


def one(
    first: TablePolicy, second: TablePolicy, rule: Rule, places: Sequence[int] = (), max_tokens: int = 8
) -> Written:
    line = Line(prompt=PROMPT, seed=3, places=frozenset(places))
    settings = msgspec.structs.replace(SETTINGS, max_tokens=max_tokens)
    write_corrected(pair(first, second), rule, Decoding.GREEDY, settings, (END,), [line])
    return line.answer, line.taken


def test_the_oracle_takes_the_seconds_token_where_the_two_part_and_nowhere_else() -> None:
    assert one(BASE, TUNED, Rule.ORACLE) == ([5, 4, 5, 5, END], 1)


def test_a_policy_is_never_corrected_by_itself() -> None:
    assert one(BASE, BASE, Rule.ORACLE) == ([5, 2, 5, 5, END], 0)


def test_uncertain_places_are_known_from_the_first_alone() -> None:
    assert one(BASE, TUNED, Rule.UNCERTAIN) == ([5, 4, 5, 5, END], 1)
    assert one(TUNED, BASE, Rule.UNCERTAIN)[1] == 0


def test_the_control_corrects_the_places_it_was_given() -> None:
    assert one(BASE, TUNED, Rule.RANDOM, [0, 3]) == ([5, 2, 5, 5, END], 2)
    assert one(BASE, TUNED, Rule.RANDOM, [1]) == ([5, 4, 5, 5, END], 1)


def test_a_correction_may_end_an_answer_and_none_makes_it_longer_than_allowed() -> None:
    ending = law((1.0, 0, 0, 0, 0, 0, 0), at=2)
    assert one(BASE, ending, Rule.ORACLE)[0] == [5, 5, END]
    assert one(BASE, TUNED, Rule.ORACLE, max_tokens=2) == ([5, 4], 1)


def test_the_control_has_as_many_places_as_the_oracle_corrected() -> None:
    written = [Line(prompt=PROMPT, seed=seed, answer=[5, 4, 5, 5, END], taken=2) for seed in range(40)]
    drawn = {line.control_places() for line in written}
    assert {len(places) for places in drawn} == {2}
    assert len(drawn) > 5
    assert set().union(*drawn) == set(range(5))


@pytest.mark.parametrize(
    ("second", "fate"), [(BASE, Fate.UNSHIFTED), (TUNED, Fate.RERANKED), (ELSEWHERE, Fate.SHIFTED)]
)
def test_a_tokens_fate_is_its_rank_in_the_first(second: TablePolicy, fate: Fate) -> None:
    text = [*PROMPT, 5, 2]
    wished = second.spreads([text])[0].argmax[1:]
    ranks = BASE.spreads([text], [[token or 0 for token in wished]])[0].rank
    assert ranks[-1] is not None
    assert Place(token=2, text="", rank=ranks[-1], entropy=0.0, instead="").fate is fate
