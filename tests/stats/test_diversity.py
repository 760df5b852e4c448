"""Diversity of ways, against counts by hand."""

import math
from fractions import Fraction

from tinsmith.stats.diversity import WINDOW, StepCounts, boredom, different, distinct_n, entropy

WAYS = [("look a", "look b"), ("look a", "look b"), ("look b",), ()]


def test_sequences_are_counted_whole() -> None:
    assert different(WAYS) == 3


def test_distinct_n_counts_n_grams() -> None:
    assert distinct_n(WAYS, 1) == Fraction(2, 5)
    assert distinct_n(WAYS, 2) == Fraction(1, 2)
    assert distinct_n(WAYS, 3) is None


def test_entropy_is_that_of_the_shares() -> None:
    assert entropy([1, 2, 3, 4]) == math.log(4)
    assert entropy([]) == entropy(["x"] * 5) == 0.0
    assert abs(entropy("aab") - (math.log(3) - 2 / 3 * math.log(2))) < 1e-12


def step(answers: str, solved: float = 0.0) -> StepCounts:
    return StepCounts(commands=tuple(answers), answers=tuple(answers), solved=solved)


LIVELY, DULL = step("abcd"), step("aaaa")


def test_answers_that_become_alike_raise_it_where_their_window_does() -> None:
    found = boredom([LIVELY] * 10 + [DULL] * WINDOW)
    assert found.entropy_first == math.log(4)
    assert (found.entropy_last, found.different_last) == (0.0, 1 / 20)
    assert 10 <= found.alarm < 10 + WINDOW


def test_one_that_solves_what_it_is_asked_is_not_bored() -> None:
    found = boredom([LIVELY] * 10 + [step("aaaa", 0.9)] * WINDOW)
    assert found.alarm is None


def test_as_lively_as_ever_is_not_bored_and_too_few_steps_say_nothing() -> None:
    found = boredom([LIVELY] * 20)
    assert found.alarm is None
    assert boredom([LIVELY] * (WINDOW - 1)) is None
