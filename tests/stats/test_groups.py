"""Informative groups and determinism by true label."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinsmith.stats.groups import Group, LabelGroups, census
from tinsmith.types.errors import DataError

LABELS = ("a", "b")


def group(gold: str, right: str, rewards: tuple[float, ...] | None = None) -> Group:
    """Return a group from a string of 1 and 0, rewarded by being right unless told otherwise."""
    flags = tuple(letter == "1" for letter in right)
    return Group(gold, rewards or tuple(map(float, flags)), flags)


def test_groups_are_counted_by_true_label() -> None:
    found = census(LABELS, [group("a", "11"), group("a", "10"), group("a", "00"), group("b", "01")])
    a = found["a"]
    assert (a.groups, a.informative, a.all_right, a.all_wrong) == (3, 1, 1, 1)
    assert a.informative_rate == a.mixed_rate == 1 / 3
    assert found["b"].informative_rate == 1.0


def test_rewards_can_differ_where_all_answers_are_wrong() -> None:
    found = census(LABELS, [group("a", "00", (-1.0, -0.55))])["a"]
    assert (found.informative, found.all_wrong, found.mixed_rate) == (1, 1, 0.0)


def test_a_group_of_one_compares_nothing() -> None:
    found = census(LABELS, [group("a", "1")])
    assert found["a"] == LabelGroups()
    assert math.isnan(found["a"].informative_rate)
    assert math.isnan(found["a"].determinism)


def test_the_expected_share_of_mixed_groups_is_the_binomial_one() -> None:
    found = census(LABELS, [group("a", "1100"), group("a", "0000"), group("a", "10")])["a"]
    p = 3 / 10
    four, two = 1 - p**4 - (1 - p) ** 4, 1 - p**2 - (1 - p) ** 2
    assert found.expected_mixed_rate == pytest.approx((2 * four + two) / 3)


def test_determinism_tells_coins_from_fixed_papers() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    coins = ["".join(map(str, row)) for row in (rng.random((4000, 4)) < 0.4).astype(int)]
    fixed = ["1111" if x else "0000" for x in rng.random(4000) < 0.4]
    coin = census(LABELS, [group("a", row) for row in coins])["a"]
    dead = census(LABELS, [group("a", row) for row in fixed])["a"]
    assert coin.determinism == pytest.approx(0.0, abs=0.03)
    assert dead.determinism == 1.0
    assert coin.mixed_rate == pytest.approx(1 - 0.4**4 - 0.6**4, abs=0.02)


def test_steps_add_up() -> None:
    first, second = [group("a", "11"), group("b", "10")], [group("a", "100")]
    parts = census(LABELS, first)["a"] + census(LABELS, second)["a"]
    assert parts == census(LABELS, first + second)["a"]
    assert parts.size_counts == ((2, 1), (3, 1))


def test_an_unknown_label_is_named() -> None:
    with pytest.raises(DataError, match="group = 'c'"):
        census(LABELS, [group("c", "10")])
