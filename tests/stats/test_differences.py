"""Newcombe's intervals against the tables of his two papers, differences within strata, and the edges."""

import math

import numpy as np
import pytest

from tinsmith.studies.debate.statistics import Stratum, paired_difference, share_difference, stratified_difference
from tinsmith.types.errors import DataError


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [  # Statistics in Medicine 17, 873, table II, method 10
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((10, 10, 0, 20), 0.6791, 1.0),
    ],
)
def test_independent_shares(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    found = share_difference(*counts)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    turned = share_difference(counts[2], counts[3], counts[0], counts[1])
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [  # Statistics in Medicine 17, 2635, table III, method 10
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((20, 12, 2, 16), 0.0562, 0.3292),
        ((54, 0, 0, 0), -0.0664, 0.0664),
        ((0, 30, 0, 0), 0.8395, 1.0),
    ],
)
def test_paired_shares(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    found = paired_difference(*counts)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_agreement_narrows_the_interval() -> None:
    agree, apart = paired_difference(40, 5, 5, 40), paired_difference(22, 23, 23, 22)
    assert agree.high - agree.low < apart.high - apart.low


def test_what_is_refused() -> None:
    for counts in ((0, 0, 0, 0), (1, -1, 0, 3)):
        with pytest.raises(DataError):
            paired_difference(*counts)
    with pytest.raises(DataError):
        share_difference(0, 0, 1, 2)


def test_one_stratum_is_walds_difference() -> None:
    found = stratified_difference([Stratum(56, 70, 48, 80)])
    assert found is not None
    value, interval = found
    assert value == pytest.approx(56 / 70 - 48 / 80)
    wald = 1.959964 * math.sqrt(0.8 * 0.2 / 70 + 0.6 * 0.4 / 80)
    assert interval.high - value == pytest.approx(wald, rel=0.01)


def test_strata_are_weighted_by_mantel_and_haenszel() -> None:
    strata = [Stratum(9, 10, 1, 10), Stratum(5, 50, 5, 50), Stratum(7, 7, 0, 0)]
    found = stratified_difference(strata)
    assert found is not None
    assert found[0] == pytest.approx((5 * 0.8 + 25 * 0.0) / 30)
    assert stratified_difference(strata[2:]) is None, "a stratum of one group tells nothing"
    assert stratified_difference([]) is None


def test_where_the_strata_alone_decide_the_interval_is_put_together_from_theirs() -> None:
    one = stratified_difference([Stratum(0, 10, 0, 10)])
    assert one == (0.0, share_difference(0, 10, 0, 10))
    for strata in ([Stratum(0, 10, 0, 10), Stratum(0, 5, 0, 10)], [Stratum(0, 3, 0, 40), Stratum(30, 30, 20, 20)]):
        found = stratified_difference(strata)
        assert found is not None
        assert found[0] == 0.0
        weights = [each.first_n * each.second_n / (each.first_n + each.second_n) for each in strata]
        reaches = [
            weight / sum(weights) * share_difference(each.first, each.first_n, each.second, each.second_n).high
            for weight, each in zip(weights, strata, strict=True)
        ]
        assert found[1].high == pytest.approx(math.hypot(*reaches))
        assert found[1].holds(0.0)
    with pytest.raises(DataError):
        stratified_difference([Stratum(3, 2, 0, 1)])


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Few large strata and many small ones, where the groups' sizes go with the share."""
    generator = np.random.default_rng(0)
    for sizes, gap in (([(40, 80), (80, 40)], 0.1), ([(3, 4)] * 60, 0.0)):
        base = np.linspace(0.2, 0.6, len(sizes))
        held = 0
        for _ in range(800):
            strata = [
                Stratum(int(generator.binomial(n, p + gap)), n, int(generator.binomial(m, p)), m)
                for (n, m), p in zip(sizes, base, strict=True)
            ]
            found = stratified_difference(strata)
            assert found is not None
            held += found[1].holds(gap)
        assert 0.93 <= held / 800 <= 0.97
