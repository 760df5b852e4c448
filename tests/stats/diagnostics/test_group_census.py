"""How mixed groups are beside chance: the closed form against counting, fixed failure against random failure."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from tinsmith.stats.groups import group_census, informative_rate


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
