"""Scores from z: the seeds' rule in numbers, ranks within a year, and nulls that stay null."""

import math

import numpy as np
import pytest
from scipy.stats import rankdata

from tinsmith.data.baselines.scores import legacy_score, score_frame, year_percentile


@pytest.mark.parametrize(
    ("z_p10", "z_median", "novelty", "conventionality"),
    [
        (-20, 50, 0.9997, 0.9997),
        (-5, 1, 0.9933, 0.7311),
        (0, 5, 0.5, 0.9933),
        (3, 20, 0.0474, 0.9997),
        (-0.5, 0.2, 0.6225, 0.5498),
        (-2, 2, 0.8808, 0.8808),
    ],
)
def test_legacy_scores(z_p10: float, z_median: float, novelty: float, conventionality: float) -> None:
    frame = score_frame(np.zeros(1, np.int32), np.array([float(z_median)]), np.array([float(z_p10)]))
    scores = (frame["novelty_score"][0], frame["conventionality_score"][0])
    assert tuple(round(score, 4) for score in scores) == (novelty, conventionality)


def test_legacy_scores_are_the_sigmoid() -> None:
    z = np.linspace(-9, 9, 4001)
    exact = [1 / (1 + math.exp(-min(8.0, max(-8.0, value)))) for value in z.tolist()]
    np.testing.assert_allclose(legacy_score(z), exact, rtol=1e-15)
    assert (np.diff(legacy_score(np.linspace(-8, 8, 1001))) > 0).all()


def test_lower_z_is_never_less_novel() -> None:
    z = np.sort(np.random.default_rng(0).normal(0, 6, 500))
    frame = score_frame(np.zeros(500, np.int32), z, z)
    for name in ("novelty_score", "novelty_percentile"):
        assert (np.diff(frame[name].to_numpy()) <= 0).all()
    for name in ("conventionality_score", "conventionality_percentile"):
        assert (np.diff(frame[name].to_numpy()) >= 0).all()


def test_undefined_z_has_no_score() -> None:
    z = np.array([1.0, np.nan, 2.0])
    frame = score_frame(np.zeros(3, np.int32), z, z)
    assert frame.null_count().row(0) == (1, 1, 1, 1)
    assert all(frame[name][1] is None for name in frame.columns)


def test_percentiles_are_mean_ranks_within_a_year() -> None:
    rng = np.random.default_rng(1)
    years = np.repeat(np.array([1990, 1991, 1992], np.int32), [40, 1, 60])
    values = rng.integers(0, 12, 101).astype(np.float64)
    values[rng.random(101) < 0.1] = np.nan
    values[40] = 3.0
    ours = year_percentile(years, values)
    for year in (1990, 1992):
        rows = (years == year) & ~np.isnan(values)
        ranks = rankdata(values[rows], "average")
        np.testing.assert_array_equal(ours[rows], (ranks - 1) / (rows.sum() - 1))
    assert ours[40] == 0.5
    assert np.isnan(ours).tolist() == np.isnan(values).tolist()
