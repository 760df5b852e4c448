"""The scores of a confusion matrix by name: of the whole matrix, and of each label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

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

Score = Callable[[FloatArray], FloatArray]
"""(..., K, K + 1) -> (...)."""
ClassScore = Callable[[FloatArray], FloatArray]
"""(..., K, K + 1) -> (..., K)."""


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
