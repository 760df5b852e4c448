"""Stated confidence against being right: low, medium and high; and the rank correlation of two quantities.

A word stands for one probability of being right, so that the bins of the calibration error are the
words themselves and nothing depends on where bin edges fall. Items without a valid answer state no
confidence; they are left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tinsmith.ops.exact import log
from tinsmith.types.errors import DataError

STATED: Mapping[str, float] = MappingProxyType({"low": 0.2, "medium": 0.5, "high": 0.8})
"""The probability of being right that each word is read as."""


@dataclass(frozen=True, slots=True)
class Level:
    """The items with one stated confidence: how many, and how many of them right."""

    word: str
    stated: float
    items: int
    right: int

    @property
    def accuracy(self) -> float:
        """Share right; NaN where nothing was stated so."""
        return self.right / self.items if self.items else math.nan


@dataclass(frozen=True, slots=True)
class Calibration:
    """Stated confidence against correctness, c in {0, 1}, p the stated probability.

    All three errors are NaN where no item states a confidence.
    """

    levels: tuple[Level, ...]
    left_out: int

    @classmethod
    def of(cls, confidences: Sequence[str | None], right: Sequence[bool]) -> Calibration:
        """Count n stated words (None: no valid answer) against n answers that were right or not."""
        if len(confidences) != len(right):
            raise DataError("every item needs a confidence and an answer", field="confidences")
        unknown = sorted({word for word in confidences if word is not None} - set(STATED))
        if unknown:
            raise DataError(
                "this is not a stated confidence", field="confidence", value=unknown[0], allowed=", ".join(STATED)
            )
        levels = tuple(
            Level(
                word,
                stated,
                sum(w == word for w in confidences),
                sum(w == word and bool(c) for w, c in zip(confidences, right, strict=True)),
            )
            for word, stated in STATED.items()
        )
        return cls(levels, sum(w is None for w in confidences))

    @property
    def num_items(self) -> int:
        """Items that state a confidence."""
        return sum(level.items for level in self.levels)

    @property
    def ece(self) -> float:
        """Expected calibration error: sum over words of n_w / n |accuracy_w - p_w|.

        Source: Naeini, Cooper, Hauskrecht, AAAI 2015, the bins being the words.
        """
        return self._mean(lambda level: abs(level.right - level.items * level.stated))

    @property
    def brier(self) -> float:
        """Mean (p - c)^2. Source: Brier, Monthly Weather Review 78 (1950), on being right."""
        return self._mean(
            lambda level: (
                level.right * (1.0 - level.stated) * (1.0 - level.stated)
                + (level.items - level.right) * level.stated * level.stated
            )
        )

    @property
    def nll(self) -> float:
        """Mean -c log p - (1 - c) log(1 - p), in nats."""
        return self._mean(
            lambda level: -level.right * _log(level.stated) - (level.items - level.right) * _log(1.0 - level.stated)
        )

    def _mean(self, total: Callable[[Level], float]) -> float:
        n = self.num_items
        return math.fsum(total(level) for level in self.levels) / n if n else math.nan


def _log(p: float) -> float:
    return float(log(np.array(p)))


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the correlation of ranks, -1 to 1; 0 where one side is constant, as nothing goes along with it.

    >>> spearman([0.0, 0.5, 1.0], [0.1, 0.2, 0.9])
    1.0
    """
    a, b = _centred(x), _centred(y)
    scale = math.fsum(one * one for one in a) * math.fsum(one * one for one in b)
    if scale == 0.0:
        return 0.0
    return math.fsum(one * other for one, other in zip(a, b, strict=True)) / math.sqrt(scale)


def _centred(values: Sequence[float]) -> list[float]:
    """Return ranks less their mean."""
    middle = (len(values) + 1) / 2
    return [
        sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 - middle
        for one in values
    ]
