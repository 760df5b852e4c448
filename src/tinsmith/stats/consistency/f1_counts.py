"""Which numbers of answers by label give a printed macro-F1, when class sizes and right answers are known.

All possibilities are enumerated, up to a limit; nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.consistency.reported import Rate

MOST_CASES = 20_000_000


@dataclass(frozen=True, slots=True)
class SaidRanges:
    """Smallest and largest number of answers by label, and of invalid ones."""

    said: tuple[tuple[int, int], ...]
    invalid: tuple[int, int]
    checked: bool
    """Whether the macro-F1 was enumerated; False where there are too many cases."""


def said_ranges(rate: Rate, sizes: Sequence[int], correct: Sequence[int], found: SaidRanges) -> SaidRanges | None:
    """Narrow the numbers of answers to those with which (1/K) sum 2 C_kk / (R_k + P_k) prints as `rate`.

    The numbers must also belong to some confusion matrix: sum P_k + invalid = n and
    C_kk <= P_k <= C_kk + (n - R_k) - (C - C_kk).

    Args:
        rate: the printed macro-F1.
        sizes: R_k, the items of each label.
        correct: C_kk, the right answers of each label.
        found: what is known of the numbers of answers.

    Returns:
        None where no numbers give it.
    """
    n, total, num_labels = sum(sizes), sum(correct), len(sizes)
    bounds = [
        (max(low, c), min(high, n - size - total + 2 * c))
        for (low, high), size, c in zip(found.said, sizes, correct, strict=True)
    ]
    low, high = found.invalid
    # The widest range follows from the others, because all answers add up to n.
    derived = max(range(num_labels), key=lambda k: bounds[k][1] - bounds[k][0])
    free = [k for k in range(num_labels) if k != derived]
    axes = [np.arange(a, b + 1) for a, b in (*(bounds[k] for k in free), (low, high))]
    cases = int(np.prod([float(len(axis)) for axis in axes]))
    if cases == 0:
        return None
    if cases > MOST_CASES:
        return found
    grids = np.meshgrid(*axes, indexing="ij", sparse=True)
    invalid = grids[-1]
    last = n - invalid - sum(grids[:-1], np.zeros((), np.int64))
    f1 = _f1(correct[derived], sizes[derived], last)
    for k, answers in zip(free, grids[:-1], strict=True):
        f1 = f1 + _f1(correct[k], sizes[k], answers)
    wanted, slack = float(rate.units), 0.5 + 1e-6
    scaled = f1 * (10.0**rate.decimals / num_labels)
    fits = (np.abs(scaled - wanted) <= slack) & (last >= bounds[derived][0])
    fits &= last <= bounds[derived][1]
    if not fits.any():
        return None
    said: list[tuple[int, int]] = [(0, 0)] * num_labels
    for axis, k in enumerate(free):
        said[k] = _ends(axes[axis], fits, axis)
    kept = last[fits]
    said[derived] = int(kept.min()), int(kept.max())
    return SaidRanges(tuple(said), _ends(axes[-1], fits, len(free)), True)


def _f1(correct: int, size: int, said: NDArray[np.int64]) -> NDArray[np.float64]:
    # Impossible cases (said below zero) are ruled out by their bounds; here they only must not divide by 0.
    return 2.0 * correct / np.maximum(size + said, 1)


def _ends(axis_values: NDArray[np.int64], fits: NDArray[np.bool_], axis: int) -> tuple[int, int]:
    others = tuple(i for i in range(fits.ndim) if i != axis)
    kept = axis_values[fits.any(axis=others)]
    return int(kept[0]), int(kept[-1])
