"""A figure with its interval as a page shows it, and where it comes from; missing is None and shown in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinsmith.data.baselines.report import Figure
from tinsmith.stats.estimates import Bootstrap, Difference, Estimate
from tinsmith.stats.evaluation import Evaluation
from tinsmith.stats.intervals import Interval, mean_over_seeds

BOOTSTRAP = Bootstrap(draws=2000)  # Draws for the intervals of tables; those of claims are drawn ten thousand times.


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


Measures = Mapping[str, Measure]  # By the name in metrics.jsonl, without its group.


def from_evaluation(evaluation: Evaluation, bootstrap: Bootstrap = BOOTSTRAP) -> Measures:
    """Return all figures of an evaluation with intervals; what is undefined is left out."""
    found = evaluation.estimates(bootstrap)
    return {name: from_estimate(estimate) for name, estimate in found.items() if not math.isnan(estimate.value)}


def from_estimate(estimate: Estimate | Difference) -> Measure:
    """Return an estimate, or a difference, as a measure."""
    return within(estimate.value, estimate.interval)


def within(value: float, ends: Interval | None) -> Measure:
    """Return a figure with its interval, where it has one."""
    return Measure(value) if ends is None else Measure(value, ends.low, ends.high)


def over_seeds(values: Sequence[float]) -> Measure:
    """Return a mean over seeds, with Student's interval where there are several."""
    return within(*mean_over_seeds(values))


def over_all(values: Sequence[float | None]) -> Measure | None:
    """Return a mean over runs, with Student's interval; None where one of them has no such figure."""
    known = [one for one in values if one is not None]
    return over_seeds(known) if len(known) == len(values) else None


def from_row(row: Mapping[str, float | None], group: str) -> Measures:
    """Return the figures of one group of a line of metrics; they have no interval."""
    prefix = f"{group}/"
    return {
        key[len(prefix) :]: Measure(value) for key, value in row.items() if key.startswith(prefix) and value is not None
    }


def from_figure(figure: Figure) -> Measure:
    """Return a baseline's figure."""
    return Measure(figure.value, figure.low, figure.high)
