"""Which groups are kept by the spread of their rewards, and when there is none left to learn from."""

from __future__ import annotations

import pytest

from tinsmith.stats.groups import FlatRewards, deviation, kept_groups


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
