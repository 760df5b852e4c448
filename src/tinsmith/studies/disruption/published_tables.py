"""The two tables the source notes published, digit by digit, as what the consistency check is tried on.

Source: "Tinker, smol-RL and QDoRA (Part 2)", the evaluation snapshot at step 250 on "the same held-out
500 papers", and the held-out trajectory of Exp5. Macro-F1 of the snapshot is from the text below it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinsmith.data.labels import Disruption
from tinsmith.stats.consistency.reported import ReportedTable
from tinsmith.stats.incentives import Posteriors
from tinsmith.stats.rates import ClassMetric, Metric

LABELS = tuple(label.value for label in Disruption)
STATED_N = 500
_LADDER = {
    "Baseline": "0.326 0.966 0.918 0.0897 0.2108 0.6085 0.082 0.288",
    "Exp1": "0.316 0.974 0.960 0.2414 0.4096 0.2910 0.040 0.317",
    "Exp2": "0.362 0.978 0.976 0.0621 0.7048 0.2910 0.024 0.309",
    "Exp3": "0.356 0.944 0.906 0.1034 0.4458 0.4709 0.094 0.337",
    "Exp4": "0.396 0.998 0.998 0.0069 0.2831 0.7937 0.002 0.292",
}
_LADDER_KEYS = (
    Metric.LABEL_MATCH.value,
    "parse_ok",
    "format_strict_ok",
    *(f"{ClassMetric.RECALL.value}/{label}" for label in LABELS),
    Metric.INVALID_RATE.value,
    Metric.MACRO_F1.value,
)
_EXP5 = {
    "Exp5 step 0": "0.3360 0.3003 0.0955 0.0823 0.0823",
    "Exp5 step 250": "0.3445 0.2489 0.8295 0.8009 0.0132",
    "Exp5 step 500": "0.3495 0.1819 0.9885 0.9928 0.0000",
    "Exp5 step 2000": "0.3465 0.1716 1.0000 1.0000 0.0000",
}
_EXP5_KEYS = (
    Metric.LABEL_MATCH.value,
    Metric.MACRO_F1.value,
    f"{ClassMetric.PREDICTED_SHARE.value}/{LABELS[0]}",
    f"{ClassMetric.RECALL.value}/{LABELS[0]}",
    Metric.MIN_CLASS_RECALL.value,
)


def seed_ladder() -> ReportedTable:
    """Return Baseline to Exp4 at step 250, n = 500 as stated."""
    return ReportedTable.of(LABELS, _lines(_LADDER, _LADDER_KEYS), STATED_N)


def seed_exp5(n: int | None = None) -> ReportedTable:
    """Return Exp5's held-out trajectory; `n` is what one wants to try, None: any."""
    return ReportedTable.of(LABELS, _lines(_EXP5, _EXP5_KEYS), n)


def _lines(printed: Mapping[str, str], keys: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    return {name: dict(zip(keys, rates.split(), strict=True)) for name, rates in printed.items()}


_KINDS = ((0.36, 0.38, 0.26), (0.36, 0.26, 0.38), (0.31, 0.40, 0.29))
"""Probabilities of disruptive, consolidating, neutral; the fourth kind makes all priors 1/3."""


def worked_example() -> Posteriors:
    """Return the four kinds, equally frequent."""
    kinds = np.array(_KINDS)
    last = 4.0 / 3.0 - kinds.sum(axis=0)
    labels = (Disruption.DISRUPTIVE, Disruption.CONSOLIDATING, Disruption.NEUTRAL)
    return Posteriors.of([label.value for label in labels], np.vstack([kinds, last]))
