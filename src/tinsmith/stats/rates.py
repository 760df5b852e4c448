"""The scores of a confusion matrix by name: of the whole matrix, and of each label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.types.confusion_scores import (
    FloatArray,
    balanced_accuracy,
    f1,
    g_mean,
    invalid_rate,
    label_match,
    macro_f1,
    min_class_recall,
    precision,
    predicted_share,
    recall,
)

Score = Callable[[FloatArray], FloatArray]  # (..., K, K + 1) -> (...).
ClassScore = Callable[[FloatArray], FloatArray]  # (..., K, K + 1) -> (..., K).


class Metric(StrEnum):
    """The scores of a whole confusion matrix, by the names they have in metrics.jsonl."""

    LABEL_MATCH = "label_match"
    INVALID_RATE = "invalid_rate"
    MACRO_F1 = "macro_f1"
    BALANCED_ACCURACY = "balanced_accuracy"
    MIN_CLASS_RECALL = "min_class_recall"
    G_MEAN = "g_mean"


class ClassMetric(StrEnum):
    """The scores of one label, by the names they have in metrics.jsonl."""

    RECALL = "recall"
    PRECISION = "precision"
    F1 = "f1"
    PREDICTED_SHARE = "predicted_share"


SCORES: Mapping[Metric, Score] = MappingProxyType(
    {
        Metric.LABEL_MATCH: label_match,
        Metric.INVALID_RATE: invalid_rate,
        Metric.MACRO_F1: macro_f1,
        Metric.BALANCED_ACCURACY: balanced_accuracy,
        Metric.MIN_CLASS_RECALL: min_class_recall,
        Metric.G_MEAN: g_mean,
    }
)
CLASS_SCORES: Mapping[ClassMetric, ClassScore] = MappingProxyType(
    {
        ClassMetric.RECALL: recall,
        ClassMetric.PRECISION: precision,
        ClassMetric.F1: f1,
        ClassMetric.PREDICTED_SHARE: predicted_share,
    }
)

_METRICS: Final = {
    "label_match": "accuracy",
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    "min_class_recall": "smallest recall",
    "parse_ok": "valid JSON",
    "format_strict_ok": "exact form",
    "invalid_rate": "invalid answers",
    "exact_match": "both labels right",
}


def metric_words(name: str) -> str:
    """Return what a metric of metrics.jsonl is called on a page; any other name stays as it is.

    >>> metric_words("macro_f1"), metric_words("reward")
    ('macro-F1', 'reward')
    """
    return _METRICS.get(name, name)
