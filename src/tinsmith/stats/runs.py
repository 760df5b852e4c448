"""The answers of one system, trained with one or several seeds, to the same items.

This is what intervals, tests and claims are computed from: true labels once, answers once a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinsmith.stats.confusion import Codes, Confusion, encode, tabulate
from tinsmith.stats.rates import SCORES, Metric
from tinsmith.types.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """A system's answers: `golds` (n,) and `predicted` (S, n), as codes; K stands for invalid.

    Build it with `Runs.of`, which checks what is given.
    """

    name: str
    labels: tuple[str, ...]
    items: tuple[str, ...]
    golds: Codes
    predicted: Codes

    @classmethod
    def of(
        cls,
        name: str,
        labels: Sequence[str],
        items: Sequence[str],
        golds: Sequence[str],
        predicted: Sequence[Sequence[str | None]],
    ) -> Runs:
        """Build it from n items, their n true labels, and per seed n answers (None: invalid)."""
        if not items or not predicted:
            raise DataError(f"{name}: there is nothing to score", field="items, seeds")
        if len(set(items)) != len(items):
            raise DataError(f"{name}: an item is answered once per seed", field="items")
        for row in (golds, *predicted):
            if len(row) != len(items):
                what = f"{name}: every item has one true label and one answer per seed"
                raise DataError(what, field="answers", value=len(row), allowed=str(len(items)))
        gold_codes = encode(labels, golds)
        if (gold_codes == len(labels)).any():
            raise DataError(f"{name}: an item has no true label", field="golds")
        answers = np.stack([encode(labels, row) for row in predicted])
        return cls(name, tuple(labels), tuple(items), gold_codes, answers)

    @classmethod
    def constant(cls, other: Runs, label: str) -> Runs:
        """Return the system that answers `label` to every item of `other`."""
        code = encode(other.labels, [label])[0]
        answers = np.full((1, other.num_items), code, np.int64)
        return cls(f"always {label}", other.labels, other.items, other.golds, answers)

    @property
    def num_items(self) -> int:
        """The items, n."""
        return len(self.items)

    @property
    def num_seeds(self) -> int:
        """The trained models, S."""
        return self.predicted.shape[0]

    def confusions(self) -> tuple[Confusion, ...]:
        """Return one confusion matrix a seed."""
        return tuple(Confusion(self.labels, tabulate(self.golds, row, len(self.labels))) for row in self.predicted)

    def counts(self) -> Codes:
        """Return the confusion counts of all seeds, (S, K, K + 1)."""
        return np.stack([confusion.counts for confusion in self.confusions()])

    def score(self, metric: Metric) -> float:
        """Return the mean of a score over the seeds."""
        return float(SCORES[metric](self.counts().astype(np.float64)).mean())

    def on(self, items: Sequence[str]) -> Runs:
        """Return the answers to `items` alone, in that order."""
        place = {item: i for i, item in enumerate(self.items)}
        missing = [item for item in items if item not in place]
        if missing or not items:
            raise DataError(
                f"{self.name} did not answer {len(missing)} of {len(items)} items", field="items", value=missing[:1]
            )
        order = np.array([place[item] for item in items])
        return Runs(self.name, self.labels, tuple(items), self.golds[order], self.predicted[:, order])

    def aligned(self, other: Runs) -> Runs:
        """Return `other` with its items in the order of this one."""
        if self.labels != other.labels:
            what = f"{self.name} and {other.name} do not answer the same question"
            raise DataError(what, field="labels", value=other.labels, allowed=", ".join(self.labels))
        if set(self.items) != set(other.items):
            apart = len(set(self.items) ^ set(other.items))
            raise DataError(
                f"{self.name} and {other.name} were scored on different items: {apart} differ",
                fix="score both on the same split",
            )
        other = other.on(self.items)
        if not np.array_equal(self.golds, other.golds):
            raise DataError(
                f"{self.name} and {other.name} have different true labels for the same items",
                fix="score both on the same slice",
            )
        return other
