"""A figure with its interval as a page shows it, and where it comes from; missing is None and shown in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tinsmith.data.baselines.report import Figure
from tinsmith.stats.estimates import Bootstrap, Estimate
from tinsmith.stats.evaluation import Evaluation

BOOTSTRAP = Bootstrap(draws=2000)
"""Draws for the intervals of tables; those of claims are drawn ten thousand times."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure; `low` and `high` are the ends of its 95 % interval, None where it has none."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


Measures = Mapping[str, Measure]
"""By the name in metrics.jsonl, without its group."""


def from_evaluation(evaluation: Evaluation, bootstrap: Bootstrap = BOOTSTRAP) -> Measures:
    """Return all figures of an evaluation with intervals; what is undefined is left out."""
    found = evaluation.estimates(bootstrap)
    return {name: from_estimate(estimate) for name, estimate in found.items() if not math.isnan(estimate.value)}


def from_estimate(estimate: Estimate) -> Measure:
    """Return an estimate as a measure."""
    interval = estimate.interval
    if interval is None:
        return Measure(estimate.value)
    return Measure(estimate.value, interval.low, interval.high)


def from_row(row: Mapping[str, float | None], group: str) -> Measures:
    """Return the figures of one group of a line of metrics; they have no interval."""
    prefix = f"{group}/"
    return {
        key[len(prefix) :]: Measure(value) for key, value in row.items() if key.startswith(prefix) and value is not None
    }


def from_figure(figure: Figure) -> Measure:
    """Return a baseline's figure."""
    return Measure(figure.value, figure.low, figure.high)
