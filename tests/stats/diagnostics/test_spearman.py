"""Spearman's rank correlation against scipy's, with and without ties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from tinsmith.stats.calibration import spearman


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=9))
def test_it_is_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(one) for one, _ in pairs], [float(one) for _, one in pairs]
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert spearman(x, y) == pytest.approx(float(spearmanr(x, y).statistic), abs=1e-12)


def test_nothing_goes_along_with_a_constant() -> None:
    assert spearman([0.0, 0.5, 1.0], [0.2, 0.2, 0.2]) == 0.0
