"""A confusion as shares of all answers: rows the truth, columns the predictions, the last one invalid.

All sums are exact (math.fsum), so that their bits depend on no order and no version of Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShareTable:
    """K rows of K + 1 shares; all of them sum to 1 up to rounding.

    `cells[y][k]`: share of answers about a paper of label y that say k; `cells[y][K]`: of those
    that say nothing valid.
    """

    cells: tuple[tuple[float, ...], ...]

    @classmethod
    def counted(cls, num_labels: int, pairs: Sequence[tuple[int, int | None]]) -> ShareTable | None:
        """Count pairs (truth, prediction or None for an invalid answer); None where there are none."""
        if not pairs:
            return None
        counts = [[0] * (num_labels + 1) for _ in range(num_labels)]
        for truth, predicted in pairs:
            counts[truth][num_labels if predicted is None else predicted] += 1
        return cls(tuple(tuple(count / len(pairs) for count in row) for row in counts))

    @classmethod
    def independent(cls, truths: Sequence[float], predictions: Sequence[float]) -> ShareTable:
        """The table in which predictions do not depend on the truth; no invalid answers."""
        return cls(tuple((*(truth * p for p in predictions), 0.0) for truth in truths))

    def mixed_with(self, other: ShareTable, weight: float) -> ShareTable:
        """Return (1 - weight) * self + weight * other."""
        return ShareTable(
            tuple(
                tuple((1.0 - weight) * a + weight * b for a, b in zip(mine, theirs, strict=True))
                for mine, theirs in zip(self.cells, other.cells, strict=True)
            )
        )

    @property
    def size(self) -> int:
        """The number K of labels."""
        return len(self.cells)

    def truth(self, y: int) -> float:
        """Return the share of papers of label y."""
        return math.fsum(self.cells[y])

    def said(self, k: int) -> float:
        """Return the share of answers that say k."""
        return math.fsum(row[k] for row in self.cells)

    def said_if_valid(self, k: int) -> float | None:
        """Return the share of the valid answers that say k; None where no answer is valid."""
        valid = math.fsum(share for row in self.cells for share in row[:-1])
        return self.said(k) / valid if valid > 0.0 else None

    def recall(self, y: int) -> float | None:
        """Return the share of papers of label y that are recognised; None without such papers."""
        papers = self.truth(y)
        return self.cells[y][y] / papers if papers > 0.0 else None

    def f1(self, k: int) -> float:
        """Return the F1 of label k, an invalid answer counting as wrong; 0 where nothing is k."""
        both = self.truth(k) + self.said(k)
        return 2.0 * self.cells[k][k] / both if both > 0.0 else 0.0

    def macro_f1(self) -> float:
        """Return the mean F1 of all labels, as `types.confusion_scores.macro_f1` does, by exact sums."""
        return math.fsum(self.f1(k) for k in range(self.size)) / self.size
