"""Counts that can stand behind one line of printed rates: windows for many class sizes at once, and by macro-F1.

A candidate is one row of class sizes. All windows are inclusive integer arrays; a line is possible for a
candidate where none of its windows is empty and they can hold together. Conditions on predicted counts
come from the confusion matrix: of P_k answers k, C_kk are right, and the wrong ones fall on items of the
other labels that are not right themselves, P_k - C_kk <= (n - R_k) - (C - C_kk).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.consistency.reported import Rate, ReportedRun
from tinsmith.stats.rates import ClassMetric, Metric

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """Counts from `low` to `high`, both included, per candidate (M,)."""

    low: Ints
    high: Ints

    @property
    def possible(self) -> NDArray[np.bool_]:
        """Where it is not empty."""
        return self.low <= self.high

    def meet(self, other: Window) -> Window:
        """Return what both allow."""
        return Window(np.maximum(self.low, other.low), np.minimum(self.high, other.high))


def window(rate: Rate | None, n: Ints) -> Window:
    """Return the counts of n (M,) that print as `rate`; all from 0 to n where it is not given."""
    if rate is None:
        return Window(np.zeros_like(n), n)
    scale = 2 * 10**rate.decimals
    low = -((-n * (2 * rate.units - 1)) // scale)
    high = n * (2 * rate.units + 1) // scale
    return Window(np.maximum(low, 0), np.minimum(high, n))


@dataclass(frozen=True, slots=True)
class LineWindows:
    """The counts behind one line, per candidate: right answers by label, right in all, said, invalid."""

    correct: tuple[Window, ...]
    total: Window
    said: tuple[Window, ...]
    invalid: Window
    possible: NDArray[np.bool_]


def line_windows(run: ReportedRun, labels: tuple[str, ...], rest: bool, sizes: Ints) -> LineWindows:
    """Return the windows of one line for M candidates: `sizes` (M, columns) of classes, whose rows sum to n.

    `labels` have a size of their own; with `rest` the last column lumps those whose sizes nothing tells.
    """
    n = sizes.sum(axis=1)
    recalls = [run.of_label(ClassMetric.RECALL, label) for label in labels]
    shares = [run.of_label(ClassMetric.PREDICTED_SHARE, label) for label in labels]
    if rest:
        recalls, shares = [*recalls, None], [*shares, None]
    correct = [window(rate, sizes[:, k]) for k, rate in enumerate(recalls)]
    said = [window(rate, n) for rate in shares]
    invalid = _invalid(run, n)
    lowest = run.rate(Metric.MIN_CLASS_RECALL.value)
    if lowest is not None:
        correct = [one.meet(Window(window(lowest, sizes[:, k]).low, sizes[:, k])) for k, one in enumerate(correct)]
    total = window(run.rate(Metric.LABEL_MATCH.value), n)
    possible = invalid.possible & window(run.rate("parse_ok"), n).possible & total.possible
    for k, (right, answers) in enumerate(zip(correct, said, strict=True)):
        possible &= right.possible & answers.possible
        possible &= right.low <= answers.high
        possible &= answers.low + total.low <= n - sizes[:, k] + 2 * right.high
        possible &= total.low - right.high <= n - invalid.low - answers.low
    possible &= np.sum([one.low for one in said], axis=0) <= n - invalid.low
    if all(rate is not None for rate in shares):
        possible &= np.sum([one.high for one in said], axis=0) >= n - invalid.high
    possible &= _sums_meet(correct, total, lowest, sizes, rest)
    return LineWindows(tuple(correct), total, tuple(said), invalid, possible)


def _invalid(run: ReportedRun, n: Ints) -> Window:
    given = window(run.rate(Metric.INVALID_RATE.value), n)
    valid = window(run.rate("format_strict_ok"), n)
    return given.meet(Window(n - valid.high, n - valid.low))


def _sums_meet(correct: list[Window], total: Window, lowest: Rate | None, sizes: Ints, rest: bool) -> NDArray[np.bool_]:
    """Where right answers by label can add up to the total, one label having the lowest recall."""
    low = np.sum([one.low for one in correct], axis=0)
    high = np.sum([one.high for one in correct], axis=0)
    fits = (low <= total.high) & (high >= total.low)
    if lowest is None:
        return fits
    attained = np.zeros(len(sizes), np.bool_)
    for k, one in enumerate(correct):
        if rest and k == len(correct) - 1:
            return fits  # the lowest recall may be that of a label inside the rest
        held = one.meet(window(lowest, sizes[:, k]))
        attained |= (
            held.possible & (low - one.low + held.low <= total.high) & (high - one.high + held.high >= total.low)
        )
    return fits & attained


MOST_CASES = 20_000_000


@dataclass(frozen=True, slots=True)
class SaidRanges:
    """Smallest and largest number of answers by label, and of invalid ones."""

    said: tuple[tuple[int, int], ...]
    invalid: tuple[int, int]
    checked: bool
    """True if the macro-F1 was enumerated; False where there are too many cases."""


def said_ranges(rate: Rate, sizes: Sequence[int], correct: Sequence[int], found: SaidRanges) -> SaidRanges | None:
    """Narrow the numbers of answers to those with which (1/K) sum 2 C_kk / (R_k + P_k) prints as `rate`, a macro-F1.

    R_k are `sizes`, C_kk `correct`. The numbers must also belong to some confusion matrix: sum P_k + invalid = n and
    C_kk <= P_k <= C_kk + (n - R_k) - (C - C_kk). All are enumerated, up to a limit; None where none give it.
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
