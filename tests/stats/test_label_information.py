"""Mutual information of paper and label, on codes whose value is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import entropy

from tinsmith.stats.information import label_information
from tinsmith.types.errors import DataError


def test_a_permutation_code_tells_everything() -> None:
    assert label_information(np.eye(8)) == pytest.approx(math.log(8), abs=1e-12)


def test_one_answer_for_all_papers_tells_nothing_however_spread() -> None:
    assert label_information(np.tile([0.2, 0.5, 0.3], (50, 1))) == 0.0
    assert label_information(np.tile([1.0, 0.0, 0.0], (50, 1))) == 0.0


@settings(deadline=None)
@given(hnp.arrays(np.float64, (6, 3), elements=st.floats(0.01, 1)))
def test_it_is_the_entropy_of_the_mean_minus_the_mean_entropy(raw: np.ndarray) -> None:
    pi = raw / raw.sum(axis=1, keepdims=True)
    expected = entropy(pi.mean(axis=0)) - entropy(pi, axis=1).mean()
    assert label_information(pi) == pytest.approx(max(expected, 0.0), abs=1e-10)


def test_it_does_not_depend_on_the_order_of_the_papers() -> None:
    pi = np.random.Generator(np.random.PCG64(1)).dirichlet([1, 2, 3], 40)
    assert label_information(pi) == label_information(pi[::-1])


def test_what_is_no_distribution_is_refused() -> None:
    with pytest.raises(DataError, match="not a distribution"):
        label_information(np.array([[0.5, 0.6]]))
    with pytest.raises(DataError, match="shape"):
        label_information(np.zeros((0, 3)))
