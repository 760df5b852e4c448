"""Scores with their intervals, and paired differences of two systems with interval and p-value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinsmith.stats.intervals import Interval, checked_level, percentile
from tinsmith.stats.rates import SCORES, FloatArray, Metric
from tinsmith.stats.resampling import resampled_counts, resampled_seeds
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """Settings of an interval's draws."""

    draws: int = 10_000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        checked_level(self.level)
        if self.draws < 100:
            raise ConfigError(
                "too few resamples for an interval",
                field="draws",
                value=self.draws,
                allowed="100 and more; 10000 is usual",
            )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A score and its interval; None where no resample defines it."""

    value: float
    interval: Interval | None

    def __str__(self) -> str:
        return f"{self.value:.3f} {self.interval}" if self.interval else f"{self.value:.3f}"


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The score of one system minus another's on the same items, and what the resamples say of it."""

    value: float
    draws: FloatArray
    interval: Interval | None
    p_value: float
    """Two-sided: twice the smaller share of draws on either side of zero, one draw added to each."""

    @classmethod
    def of(cls, value: float, draws: FloatArray, level: float, *, least_p: float = 0.0) -> Difference:
        """Read interval and p off the resamples (R,); the p is not below `least_p`, that of another test.

        Source: Davison and Hinkley, "Bootstrap Methods" (1997), eq. 4.11 for the added draw.
        """
        below, above = int((draws <= 0).sum()), int((draws >= 0).sum())
        p_value = min(1.0, 2.0 * (min(below, above) + 1) / (draws.size + 1))
        return cls(value, draws, percentile(draws, level), max(p_value, least_p))

    def at(self, level: float) -> Interval | None:
        """Return the percentile interval of another level."""
        return percentile(self.draws, level)


def estimate(runs: Runs, metric: Metric, bootstrap: Bootstrap) -> Estimate:
    """Return a score's mean over seeds with its percentile interval over seeds and items."""
    counts = _counts(runs, bootstrap)
    draws = resampled_seeds(SCORES[metric](counts), seed=bootstrap.seed, system="first")
    return Estimate(runs.score(metric), percentile(draws, bootstrap.level))


def difference(first: Runs, second: Runs, metric: Metric, bootstrap: Bootstrap) -> Difference:
    """Return `first` minus `second`: mean over seeds of each, on the same items.

    Seeds are drawn apart for the two, then one resample of the items within true labels serves both.
    The p-value needs no assumption of equal variances; it cannot be below 2 / (draws + 1).
    """
    second = first.aligned(second)
    together = Runs(
        first.name, first.labels, first.items, first.golds, np.concatenate([first.predicted, second.predicted])
    )
    scores = SCORES[metric](_counts(together, bootstrap))
    draws = resampled_seeds(scores[:, : first.num_seeds], seed=bootstrap.seed, system="first") - resampled_seeds(
        scores[:, first.num_seeds :], seed=bootstrap.seed, system="second"
    )
    return Difference.of(first.score(metric) - second.score(metric), draws, bootstrap.level)


def _counts(runs: Runs, bootstrap: Bootstrap) -> FloatArray:
    return resampled_counts(runs.golds, runs.predicted, len(runs.labels), draws=bootstrap.draws, seed=bootstrap.seed)
