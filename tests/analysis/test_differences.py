"""Newcombe's intervals against the tables of his two papers, and at the edges."""

from __future__ import annotations

import pytest

from tinsmith.analysis.differences import paired_difference, share_difference
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
