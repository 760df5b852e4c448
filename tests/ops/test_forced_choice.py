"""The penalty on being sure early: weights that sum to zero, exactly; and probabilities of a forced choice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.ops.confidence import FRACTIONS, WEIGHTS, forced_choice, premature, self_certainty


@given(st.floats(0.0, 1.0))
def test_a_constant_confidence_costs_exactly_nothing(c: float) -> None:
    assert premature([c] * len(FRACTIONS)) == 0.0


def test_weights_are_the_published_ones() -> None:
    assert WEIGHTS == (0.5, 0.3, 0.1, -0.1, -0.3, -0.5)


@given(st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6))
def test_what_rises_is_paid_and_the_same_falling_costs_as_much(values: list[float]) -> None:
    rising = sorted(values)
    assert premature(rising) <= 0.0
    assert premature(rising[::-1]) == -premature(rising)


@given(st.lists(st.floats(-60.0, 0.0), min_size=2, max_size=8))
def test_a_forced_choice_is_a_softmax(logprobs: list[float]) -> None:
    found = forced_choice(np.array(logprobs))
    expected = np.exp(logprobs) / np.exp(logprobs).sum()
    assert found == pytest.approx(expected, rel=1e-12)


def test_self_certainty_is_the_divergence_of_the_uniform() -> None:
    assert self_certainty(np.full(4, 0.25)) == 0.0
    p = np.array([0.7, 0.2, 0.1])
    assert self_certainty(p) == pytest.approx(float(np.sum(np.log((1 / 3) / p)) / 3), rel=1e-12)
    assert np.isfinite(self_certainty(np.array([1.0, 0.0])))
