"""An arm's figures over its seeds: means, with intervals over seeds and papers, the papers being the same for all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tinsmith.lab.results.arms import Arm
from tinsmith.lab.runs.records import Split
from tinsmith.pages.measures import BOOTSTRAP, Measure, Measures
from tinsmith.stats.intervals import percentile, wilson
from tinsmith.stats.rates import CLASS_SCORES, SCORES, ClassMetric, FloatArray, Metric
from tinsmith.stats.resampling import resampled_counts, resampled_seeds
from tinsmith.stats.runs import Runs

_METRICS = (Metric.LABEL_MATCH, Metric.MACRO_F1, Metric.BALANCED_ACCURACY, Metric.MIN_CLASS_RECALL)
_BY_CLASS = (ClassMetric.RECALL, ClassMetric.PREDICTED_SHARE)


@dataclass(frozen=True, slots=True)
class Pooled:
    """An arm's measures on a split, and how many papers they rest on."""

    num_items: int
    measures: Measures


def pooled(arm: Arm, split: Split) -> Pooled | None:
    """Return the measures of an arm on a split; None where it has no answers there.

    Raises:
        DataError: the seeds disagree about a paper's true label.
    """
    answers = arm.answers(split)
    if answers is None:
        return None
    counts = _draws(answers)
    found: dict[str, Measure] = {}
    for metric in _METRICS:
        values = SCORES[metric](_counts(answers))
        found[metric.value] = _measure(values, SCORES[metric](counts), metric.value)
    for kind in _BY_CLASS:
        values, draws = CLASS_SCORES[kind](_counts(answers)), CLASS_SCORES[kind](counts)
        for k, label in enumerate(arm.labels):
            name = f"{kind.value}/{label}"
            found[name] = _measure(values[:, k], draws[:, :, k], name)
    n = answers.num_items
    invalid, draws = (SCORES[Metric.INVALID_RATE](each) for each in (_counts(answers), counts))
    found["invalid_rate"] = _share(_measure(invalid, draws, "invalid_rate"), n)
    found["format_strict_ok"] = _share(_measure(1.0 - invalid, 1.0 - draws, "invalid_rate"), n)
    found["parse_ok"] = _share(_parsed(arm, split, answers), n)
    found["label_match"] = _share(found["label_match"], n)
    defined = {name: one for name, one in found.items() if not math.isnan(one.value)}
    return Pooled(n, defined)


def _share(measure: Measure, num_items: int) -> Measure:
    """Return a share of all papers; where no resample differs from it, Wilson's interval for that many papers."""
    if measure.low != measure.high or measure.value not in (0.0, 1.0):
        return measure
    interval = wilson(round(measure.value * num_items), num_items)
    return Measure(measure.value, interval.low, interval.high)


def _parsed(arm: Arm, split: Split, answers: Runs) -> Measure:
    """Return the share of answers that are JSON, as if JSON were the only label."""
    rows: list[list[str | None]] = []
    for member in arm.members:
        evaluation = member.gathered.last(split)
        if evaluation is not None:
            parsed = {one.item: one.parse_ok for one in evaluation.answers}
            rows.append(["json" if parsed[item] else None for item in answers.items])
    flags = Runs.of(arm.name, ("json",), answers.items, ["json"] * answers.num_items, rows)
    match = SCORES[Metric.LABEL_MATCH]
    return _measure(match(_counts(flags)), match(_draws(flags)), "parse_ok")


def _counts(answers: Runs) -> FloatArray:
    """Return the confusion counts (S, K, K + 1) as floats."""
    return answers.counts().astype(np.float64)


def _draws(answers: Runs) -> FloatArray:
    """Return the counts of all resamples, (R, S, K, K + 1)."""
    return resampled_counts(
        answers.golds, answers.predicted, len(answers.labels), draws=BOOTSTRAP.draws, seed=BOOTSTRAP.seed
    )


def _measure(values: FloatArray, draws: FloatArray, system: str) -> Measure:
    """Return the mean of `values` (S,) with the interval of `draws` (R, S) over seeds."""
    interval = percentile(resampled_seeds(draws, seed=BOOTSTRAP.seed, system=system), BOOTSTRAP.level)
    mean = float(values.mean())
    return Measure(mean) if interval is None else Measure(mean, interval.low, interval.high)
