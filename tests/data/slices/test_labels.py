"""Thresholds: the published cases, the edges, and the vectorised rules against the scalar ones."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.labels import (
    UNDEFINED,
    Disruption,
    LabelMode,
    Novelty,
    Thresholds,
    disruption_codes,
    disruption_label,
    novelty_codes,
    novelty_label,
)
from tinsmith.types.errors import ConfigError

D, C, N = Disruption.DISRUPTIVE, Disruption.CONSOLIDATING, Disruption.NEUTRAL
INCLUSIVE, STRICT, LEGACY = LabelMode.INCLUSIVE, LabelMode.STRICT, LabelMode.LEGACY


@pytest.mark.parametrize(
    ("cd", "cut", "mode", "label"),
    [
        (0.001, 0.001, INCLUSIVE, D),
        (-0.001, 0.001, INCLUSIVE, C),
        (0.0009999, 0.001, INCLUSIVE, N),
        (-0.0009999, 0.001, INCLUSIVE, N),
        (0.0, 0.001, INCLUSIVE, N),
        (0.001, 0.001, STRICT, N),
        (-0.001, 0.001, STRICT, N),
        (0.1, 0.1, STRICT, N),
        (0.1000001, 0.1, STRICT, D),
        # The seeds' code: 0.00104 is rounded to 0.001, which is not above the cut.
        (0.00104, 0.001, LEGACY, N),
        (-0.00104, 0.001, LEGACY, N),
        (0.00106, 0.001, LEGACY, D),
        (-0.00106, 0.001, LEGACY, C),
        (0.1000001, 0.1, LEGACY, N),
        (1.0, 0.001, LEGACY, D),
    ],
)
def test_disruption_at_the_cut(cd: float, cut: float, mode: LabelMode, label: Disruption) -> None:
    assert disruption_label(cd, cut, mode) is label


@pytest.mark.parametrize("mode", list(LabelMode))
def test_undefined_is_never_neutral(mode: LabelMode) -> None:
    assert disruption_label(None, 0.001, mode) is None
    assert disruption_label(math.nan, 0.001, mode) is None
    assert disruption_codes(np.array([np.nan]), 0.001, mode).tolist() == [UNDEFINED]


def test_a_paper_without_references_is_labelled_only_on_request() -> None:
    default, kept = Thresholds(cut=0.001), Thresholds(cut=0.001, keep_no_refs=True)
    assert default.disruption(1.0, CdStatus.NO_REFS) is None
    assert kept.disruption(1.0, CdStatus.NO_REFS) is D
    # Cited references and no citer: exactly zero, and labelled.
    assert default.disruption(0.0, CdStatus.NO_WINDOW_CITERS) is N
    assert kept.disruption(None, CdStatus.EMPTY) is None


def _scores(z_p10: float, z_median: float) -> tuple[float, float]:
    def sigmoid(value: float) -> float:
        return 1 / (1 + math.exp(-max(-8.0, min(8.0, value))))

    return sigmoid(-z_p10), sigmoid(z_median)


@pytest.mark.parametrize("mode", list(LabelMode))
@pytest.mark.parametrize(
    ("z_p10", "z_median", "n", "c", "label"),
    [
        (-20.0, 50.0, 0.9997, 0.9997, Novelty.BALANCED),
        (-5.0, 1.0, 0.9933, 0.7311, Novelty.NOVEL),
        (0.0, 5.0, 0.5, 0.9933, Novelty.CONVENTIONAL),
        (3.0, 20.0, 0.0474, 0.9997, Novelty.CONVENTIONAL),
        (-0.5, 0.2, 0.6225, 0.5498, Novelty.BALANCED),
        (-2.0, 2.0, 0.8808, 0.8808, Novelty.BALANCED),
    ],
)
def test_the_published_novelty_cases(
    z_p10: float, z_median: float, n: float, c: float, label: Novelty, mode: LabelMode
) -> None:
    novelty, conventionality = _scores(z_p10, z_median)
    assert (round(novelty, 4), round(conventionality, 4)) == (n, c)
    assert novelty_label(novelty, conventionality, mode=mode) is label
    assert novelty_label(None, conventionality, mode=mode) is None
    assert novelty_label(novelty, None, mode=mode) is None


def test_the_margin_is_inclusive_by_default() -> None:
    assert novelty_label(0.75, 0.5, 0.25) is Novelty.NOVEL
    assert novelty_label(0.5, 0.75, 0.25) is Novelty.CONVENTIONAL
    assert novelty_label(0.75, 0.5, 0.25, STRICT) is Novelty.BALANCED


near_ties = st.integers(-30_000, 30_000).map(lambda i: i / 20_000)
numbers = st.one_of(st.floats(-1, 1), near_ties, st.sampled_from([0.001, -0.001, 0.00105, -0.00105, math.nan]))
cuts = st.sampled_from([0.001, 0.01, 0.02, 0.1, 0.15])
modes = st.sampled_from(list(LabelMode))


@given(st.lists(numbers, max_size=30), cuts, modes)
def test_vectorised_disruption_equals_the_scalar(cds: list[float], cut: float, mode: LabelMode) -> None:
    codes = disruption_codes(np.array(cds, np.float64), cut, mode)
    names = [None if code == UNDEFINED else tuple(Disruption)[code] for code in codes]
    assert names == [disruption_label(cd, cut, mode) for cd in cds]


@given(st.lists(st.tuples(numbers, numbers), max_size=30), cuts, modes)
def test_vectorised_novelty_equals_the_scalar(pairs: list[tuple[float, float]], margin: float, mode: LabelMode) -> None:
    array = np.array(pairs, np.float64).reshape(-1, 2)
    codes = novelty_codes(array[:, 0], array[:, 1], margin, mode)
    names = [None if code == UNDEFINED else tuple(Novelty)[code] for code in codes]
    assert names == [novelty_label(n, c, margin, mode) for n, c in pairs]


@given(st.lists(st.tuples(numbers, st.sampled_from(list(CdStatus))), max_size=30), st.booleans())
def test_vectorised_statuses_equal_the_scalar(rows: list[tuple[float, CdStatus]], keep_no_refs: bool) -> None:
    thresholds = Thresholds(cut=0.001, keep_no_refs=keep_no_refs)
    statuses = pl.Series([status.value for _, status in rows], dtype=pl.String)
    codes = thresholds.disruption_codes(np.array([cd for cd, _ in rows], np.float64), statuses)
    names = [None if code == UNDEFINED else tuple(Disruption)[code] for code in codes]
    assert names == [thresholds.disruption(cd, status) for cd, status in rows]


@pytest.mark.parametrize("cut", [0.0, -0.001, math.nan, math.inf])
def test_a_cut_that_is_not_positive_is_refused(cut: float) -> None:
    with pytest.raises(ConfigError, match="cut"):
        Thresholds(cut=cut)


def test_the_rules_are_said_in_words() -> None:
    disruption, novelty = Thresholds(cut=0.02, mode=LEGACY).sentences()
    assert "cd > 0.02" in disruption
    assert "rounded to 4 decimals" in disruption
    assert "0.15" in novelty
