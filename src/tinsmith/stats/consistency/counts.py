"""Windows of whole numbers: which counts can stand behind one line of printed rates, for many class sizes at once.

A candidate is one row of class sizes. All windows are inclusive integer arrays; a line is possible for a
candidate where none of its windows is empty and they can hold together. Conditions on predicted counts
come from the confusion matrix: of P_k answers k, C_kk are right, and the wrong ones fall on items of the
other labels that are not right themselves, P_k - C_kk <= (n - R_k) - (C - C_kk).
"""

from __future__ import annotations

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
    """Return the windows of one line for M candidates.

    Args:
        run: the line.
        labels: labels with a size of their own.
        rest: whether the last column of `sizes` lumps labels whose sizes nothing tells.
        sizes: (M, columns), class sizes; the rows sum to n.
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
