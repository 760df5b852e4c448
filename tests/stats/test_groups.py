"""Informative groups and determinism by true label."""

import math
from itertools import product

import numpy as np
import pytest

from tinsmith.stats.groups import (
    FlatRewards,
    Group,
    LabelGroups,
    census,
    deviation,
    group_census,
    informative_rate,
    kept_groups,
)
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


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_the_closed_form_is_the_sum_over_all_groups(p: float, size: int) -> None:
    each = [
        math.prod(p if right else 1.0 - p for right in group)
        for group in product((True, False), repeat=size)
        if len(set(group)) > 1
    ]
    assert informative_rate(p, size) == pytest.approx(math.fsum(each), abs=1e-15)


def test_fixed_failure_has_index_one_and_random_failure_about_zero() -> None:
    fixed = [(float(place % 4 == 0),) * 8 for place in range(400)]
    drawn = np.random.default_rng(0).random((4000, 8)) < 0.25
    random = [tuple(map(float, row)) for row in drawn]
    assert group_census(fixed).determinism == 1.0
    assert abs(group_census(random).determinism) < 0.02
    assert group_census(fixed).expected == pytest.approx(informative_rate(0.25, 8))


def test_prompts_of_unequal_difficulty_lie_between() -> None:
    rng = np.random.default_rng(1)
    chances = rng.choice([0.05, 0.95], 2000)
    groups = [tuple((rng.random(8) < p).astype(float)) for p in chances]
    assert 0.2 < group_census(groups).determinism < 0.9


def test_rewards_of_more_than_two_values_and_groups_of_several_sizes() -> None:
    found = group_census([(0.0, 0.5), (1.0, 1.0, 1.0), (0.0,)])
    shares = (1 / 5, 1 / 5, 3 / 5)
    chance = [1.0 - sum(share**size for share in shares) for size in (2, 3)]
    assert (found.groups, found.mixed) == (2, 1)
    assert found.expected == pytest.approx(sum(chance) / 2)


def test_where_no_mixed_group_is_expected_there_is_no_index() -> None:
    assert math.isnan(group_census([(1.0, 1.0)] * 5).determinism)
    assert math.isnan(group_census([]).determinism)
    assert math.isnan(group_census([]).observed)


def test_the_published_example() -> None:
    assert kept_groups([0.5, 0.5, 0.3, 0.1, 0.0], 0.9) == (True, True, True, False, False)


def test_groups_without_spread_are_never_kept_and_none_may_be() -> None:
    assert kept_groups([0.0, 0.0], 0.9) == (False, False)
    assert kept_groups([0.0, 0.2, 0.0], 1.0) == (False, True, False)
    assert kept_groups([], 0.9) == ()


def test_of_equal_ones_the_earlier_is_taken_first_and_order_changes_nothing_else() -> None:
    assert kept_groups([0.4] * 4, 0.5) == (True, True, False, False)
    assert kept_groups([0.1, 0.5, 0.3, 0.5], 0.9) == (False, True, True, True)


def test_deviation_is_the_populations_and_exactly_zero_where_rewards_are_equal() -> None:
    assert deviation([0.1] * 7) == 0.0
    assert deviation([0.0, 1.0]) == pytest.approx(0.5)
    assert deviation([]) == 0.0


def test_it_stops_after_ten_steps_below_a_tenth_of_the_first() -> None:
    spread, flat = [[0.0, 1.0]], [[1.0, 1.0]]
    seen = FlatRewards()
    assert not any(seen.saw(spread) for _ in range(10))
    assert [seen.saw(flat) for _ in range(10)] == [False] * 9 + [True]
    assert not seen.saw(spread)
    assert seen.streak == 0


def test_it_goes_on_from_what_it_kept() -> None:
    seen = FlatRewards()
    for _ in range(15):
        seen.saw([[0.0, 1.0]] if len(seen.first) < 10 else [[0.0, 0.0]])
    again = FlatRewards(first=seen.first, streak=seen.streak)
    assert [again.saw([[0.0, 0.0]]) for _ in range(5)] == [False] * 4 + [True]
