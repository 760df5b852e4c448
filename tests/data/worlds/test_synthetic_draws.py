"""Draws by integer thresholds: right distributions, and nothing of the caller's settings in them."""

import decimal
import math

import numpy as np
import pytest

from tinsmith.data.sources.world.draws import (
    exponential_ages,
    lognormal_values,
    normal_grid,
    poisson,
    threshold,
    weighted,
    words,
    zipf,
)
from tinsmith.types.seeds import random_bits

BITS = words(11, 0, 200_000)


def shares(outcomes: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(outcomes, minlength=count) / len(outcomes)


def test_words_of_a_stream_can_be_taken_from_any_position() -> None:
    assert np.array_equal(words(7, 0, 50), random_bits(7, 50))
    assert np.array_equal(words(7, 20, 30), random_bits(7, 50)[20:])
    assert np.array_equal(words(2**64 - 1, 3, 2), random_bits(2**64 - 1, 5)[3:])


def test_weights_become_shares() -> None:
    quarter = weighted([1, 2, 1])
    assert quarter.below.tolist() == [1 << 62, 3 << 62]
    edges = np.array([0, (1 << 62) - 1, 1 << 62, (3 << 62) - 1, 3 << 62, 2**64 - 1], dtype=np.uint64)
    assert quarter.draw(edges).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_lookup_agrees_with_the_draw_it_stands_for() -> None:
    table = weighted([0.5, 0.25, 0.25]).lookup()
    assert np.bincount(table).tolist() == [32768, 16384, 16384]


def test_zipf_poisson_and_ages_have_their_laws() -> None:
    ranks = np.arange(1, 6) ** -0.9
    assert shares(zipf(5, "0.9").draw(BITS), 5) == pytest.approx(ranks / ranks.sum(), abs=0.005)
    law = np.array([math.exp(-2.2) * 2.2**k / math.factorial(k) for k in range(12)])
    assert shares(poisson("2.2", 11).draw(BITS), 12) == pytest.approx(law, abs=0.005)
    ages = np.exp(-np.arange(40) / 3)
    assert shares(exponential_ages(3, 40).draw(BITS), 40) == pytest.approx(ages / ages.sum(), abs=0.005)


def test_a_lognormal_has_its_median_and_spread() -> None:
    logs = np.log(lognormal_values("1.2", 1 << 16)[normal_grid().draw(BITS)] / 65536)
    assert logs.mean() == pytest.approx(0, abs=0.01)
    assert logs.std() == pytest.approx(1.2, abs=0.01)
    assert (logs > 1.2).mean() == pytest.approx(0.1587, abs=0.005)


def test_a_threshold_never_leaves_32_bits() -> None:
    assert [threshold(p) for p in (0.0, 0.5, 1.0)] == [0, 1 << 31, 2**32 - 1]


def test_the_caller_s_decimal_context_changes_nothing() -> None:
    before = zipf(50, "0.6").below.tolist(), lognormal_values("0.6", 14).tolist()
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP)):
        after = zipf(50, "0.6").below.tolist(), lognormal_values("0.6", 14).tolist()
    assert before == after


@pytest.mark.golden
def test_the_tables_are_the_same_bits_on_every_machine() -> None:
    assert zipf(4, "0.6").below.tolist() == ZIPF
    assert lognormal_values("1.2", 1 << 16)[[0, 400, 600, 1023]].tolist() == LOGNORMAL


ZIPF = [7061465270722319672, 11720294913905398768, 15373062789147885050]
LOGNORMAL = [49, 13662, 227496, 87165890]
