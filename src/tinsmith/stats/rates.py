"""Confusion matrix of one system on one split, with a column for invalid answers, and its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.types import confusion_scores
from tinsmith.types.confusion_scores import FloatArray as FloatArray
from tinsmith.types.errors import DataError

Score = Callable[[FloatArray], FloatArray]  # (..., K, K + 1) -> (...).
ClassScore = Callable[[FloatArray], FloatArray]  # (..., K, K + 1) -> (..., K).


class Metric(StrEnum):
    """Scores of a confusion matrix, by their names in metrics.jsonl."""

    LABEL_MATCH = "label_match"
    INVALID_RATE = "invalid_rate"
    MACRO_F1 = "macro_f1"
    BALANCED_ACCURACY = "balanced_accuracy"
    MIN_CLASS_RECALL = "min_class_recall"
    G_MEAN = "g_mean"


class ClassMetric(StrEnum):
    """Scores of one label, by their names in metrics.jsonl."""

    RECALL = "recall"
    PRECISION = "precision"
    F1 = "f1"
    PREDICTED_SHARE = "predicted_share"


SCORES: Final[Mapping[Metric, Score]] = MappingProxyType({one: getattr(confusion_scores, one) for one in Metric})
CLASS_SCORES: Final[Mapping[ClassMetric, ClassScore]] = MappingProxyType(
    {one: getattr(confusion_scores, one) for one in ClassMetric}
)
"""Functions of the metrics' names."""

Codes = NDArray[np.int64]  # Positions in a tuple of labels.


def encode(labels: Sequence[str], values: Sequence[str | None]) -> Codes:
    """Return the index of each value in `labels`, (n,); len(labels) for None, an invalid answer."""
    if len(set(labels)) != len(labels) or not labels:
        raise DataError("labels must be distinct names", field="labels", value=tuple(labels))
    position: dict[str | None, int] = {label: i for i, label in enumerate(labels)}
    position[None] = len(labels)
    try:
        return np.fromiter((position[value] for value in values), np.int64, len(values))
    except KeyError as error:
        what = "this is not one of the task's labels"
        raise DataError(what, field="label", value=error.args[0], allowed=labels) from None


@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """Counts by true label (rows) and answer (columns, the last one: invalid).

    >>> Confusion.of(("a", "b"), ["a", "b", "b"], ["a", "a", None]).counts.tolist()
    [[1, 0, 0], [1, 0, 1]]
    """

    labels: tuple[str, ...]
    counts: Codes

    def __post_init__(self) -> None:
        expected = (len(self.labels), len(self.labels) + 1)
        if self.counts.shape != expected or (self.counts < 0).any():
            what = "a confusion matrix counts items by true label and by answer or invalid"
            allowed = f"numbers from 0 in {expected[0]} rows and {expected[1]} columns"
            raise DataError(what, field="counts", value=self.counts.tolist(), allowed=allowed)

    @classmethod
    def of(cls, labels: Sequence[str], golds: Sequence[str], predicted: Sequence[str | None]) -> Confusion:
        """Count `golds` (n,) against `predicted` (n,), None being an invalid answer."""
        if len(golds) != len(predicted):
            what = "every item needs one true label and one answer"
            raise DataError(what, field="predicted", value=len(predicted), allowed=str(len(golds)))
        gold_codes = encode(labels, golds)
        if (gold_codes == len(labels)).any():
            raise DataError("an item without a true label cannot be scored", field="golds")
        codes = encode(labels, predicted)
        return cls(tuple(labels), tabulate(gold_codes, codes, len(labels)))

    @property
    def num_items(self) -> int:
        """All items, those with an invalid answer included."""
        return int(self.counts.sum())

    def score(self, metric: Metric) -> float:
        """Return one score of the confusion matrix; NaN if undefined."""
        return float(SCORES[metric](self.counts.astype(np.float64)))

    def class_score(self, metric: ClassMetric) -> Mapping[str, float]:
        """Return one score per label; NaN if undefined."""
        values = CLASS_SCORES[metric](self.counts.astype(np.float64))
        return dict(zip(self.labels, values.tolist(), strict=True))


def tabulate(golds: Codes, predicted: Codes, num_labels: int) -> Codes:
    """Count pairs of codes, both (n,), into (K, K + 1)."""
    cells = golds * (num_labels + 1) + predicted
    counted = np.bincount(cells, minlength=num_labels * (num_labels + 1))
    return counted.reshape(num_labels, num_labels + 1)


def best_constant(labels: Sequence[str], golds: Sequence[str], metric: Metric) -> str:
    """Return the constant label with the best score, the first of equals."""
    scores = [Confusion.of(labels, golds, [label] * len(golds)).score(metric) for label in labels]
    return labels[max(range(len(labels)), key=lambda i: (scores[i], -i))]


def collapsed_macro_f1(prior: float, num_labels: int) -> float:
    """Return the macro-F1 of always answering the label that has the share `prior` of the items.

    >>> round(collapsed_macro_f1(0.3465, 3), 6)
    0.171556
    """
    return 2.0 * prior / (1.0 + prior) / num_labels
