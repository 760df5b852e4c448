"""Means over seeds with Student's interval: wide for few, and it holds the truth as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from tinsmith.stats.intervals import mean_over_seeds


def test_one_seed_has_a_mean_and_no_interval() -> None:
    assert mean_over_seeds([0.5]) == (0.5, None)


def test_seeds_that_agree_leave_no_width() -> None:
    mean, interval = mean_over_seeds([0.25] * 5)
    assert interval is not None
    assert (mean, interval.low, interval.high) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize("count", [2, 5, 30])
def test_it_holds_the_truth_nineteen_times_of_twenty(count: int) -> None:
    drawn = np.random.default_rng(count).normal(0.3, 1.0, (2000, count))
    found = [mean_over_seeds(row.tolist())[1] for row in drawn]
    held = [one is not None and one.low <= 0.3 <= one.high for one in found]
    assert 0.93 < sum(held) / len(held) < 0.97
