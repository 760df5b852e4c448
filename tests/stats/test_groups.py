"""Informative groups and determinism by true label."""

import math
from itertools import product

import numpy as np
import pytest

from tinsmith.stats.groups import FlatRewards, LabelGroups, chosen_groups, deviation, group_census


def group(right: str, rewards: tuple[float, ...] | None = None) -> LabelGroups:
    """Count a group from a string of 1 and 0, rewarded by being right unless told otherwise."""
    flags = [letter == "1" for letter in right]
    return LabelGroups.of(rewards or tuple(map(float, flags)), flags)


def test_groups_add_up() -> None:
    found = group("11") + group("10") + group("00")
    assert (found.groups, found.informative, found.all_right, found.all_wrong) == (3, 1, 1, 1)
    assert found.informative_rate == 1 / 3
    assert group("01").informative_rate == 1.0


def test_rewards_can_differ_where_all_answers_are_wrong() -> None:
    found = group("00", (-1.0, -0.55))
    assert (found.informative, found.all_wrong, found.all_right) == (1, 1, 0)


def test_a_group_of_one_compares_nothing() -> None:
    assert group("1") == LabelGroups()
    assert math.isnan(group("1").informative_rate)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("right", [0, 1, 2, 4])
def test_the_expected_share_is_the_sum_over_all_groups(right: int, size: int) -> None:
    p, rewards = right / 4, [1.0] * right * size + [0.0] * (4 - right) * size
    each = [
        math.prod(p if right else 1.0 - p for right in group)
        for group in product((True, False), repeat=size)
        if len(set(group)) > 1
    ]
    found = group_census([rewards[start : start + size] for start in range(0, 4 * size, size)])
    assert found.expected == pytest.approx(math.fsum(each), abs=1e-15)


def test_fixed_failure_has_index_one_and_random_failure_about_zero() -> None:
    fixed = [(float(place % 4 == 0),) * 8 for place in range(400)]
    drawn = np.random.default_rng(0).random((4000, 8)) < 0.25
    random = [tuple(map(float, row)) for row in drawn]
    assert group_census(fixed).determinism == 1.0
    assert abs(group_census(random).determinism) < 0.02
    assert group_census(fixed).expected == pytest.approx(1 - 0.25**8 - 0.75**8)


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
    assert chosen_groups([0.5, 0.5, 0.3, 0.1, 0.0], 0.9) == (True, True, True, False, False)


@pytest.mark.parametrize("scale", [100.0, 0.001])
def test_rewards_in_other_units_keep_the_same_groups(scale: float) -> None:
    spread = [scale * one for one in (0.5, 0.5, 0.5, 0.5, 0.4, 0.4, 0.3, 0.2)]
    assert chosen_groups(spread, 0.9, scale) == (*[True] * 7, False)


def test_groups_without_spread_are_never_kept_and_none_may_be() -> None:
    assert chosen_groups([0.0, 0.0], 0.9) == (False, False)
    assert chosen_groups([0.0, 0.2, 0.0], 1.0) == (False, True, False)
    assert chosen_groups([], 0.9) == ()


def test_of_equal_ones_the_earlier_is_taken_first_and_order_changes_nothing_else() -> None:
    assert chosen_groups([0.4] * 4, 0.5) == (True, True, False, False)
    assert chosen_groups([0.1, 0.5, 0.3, 0.5], 0.9) == (False, True, True, True)


def test_deviation_is_the_populations_and_exactly_zero_where_rewards_are_equal() -> None:
    assert deviation([0.1] * 7) == 0.0
    assert deviation([0.0, 1.0]) == pytest.approx(0.5)
    assert deviation([]) == 0.0


def test_it_stops_after_ten_steps_below_a_tenth_of_the_first() -> None:
    spread, flat = [[0.0, 1.0]], [[1.0, 1.0]]
    seen = FlatRewards()
    assert not any(seen.observe(spread) for _ in range(10))
    assert [seen.observe(flat) for _ in range(10)] == [False] * 9 + [True]
    assert not seen.observe(spread)
    assert seen.streak == 0


def test_it_goes_on_from_what_it_kept() -> None:
    seen = FlatRewards()
    for _ in range(15):
        seen.observe([[0.0, 1.0]] if len(seen.first) < 10 else [[0.0, 0.0]])
    again = FlatRewards(first=seen.first, streak=seen.streak)
    assert [again.observe([[0.0, 0.0]]) for _ in range(5)] == [False] * 4 + [True]


def test_groups_that_lost_their_rewards_are_not_flat() -> None:
    rewards = FlatRewards()
    for _ in range(10):
        assert not rewards.observe([[0.0, 1.0]] * 10)
    assert not any(rewards.observe([[0.0, 1.0], *[[]] * 8, [1.0]]) for _ in range(20))
    assert not any(rewards.observe([[], [0.0]]) for _ in range(20))


def test_a_cold_start_is_not_flat() -> None:
    """Nothing is below a tenth of nothing."""
    cold = FlatRewards()
    assert not any(cold.observe([[0.0, 0.0]]) for _ in range(60))
