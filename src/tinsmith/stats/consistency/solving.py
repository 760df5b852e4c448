"""Recovers the whole numbers behind published rates: how many items of each class, how many answered right.

Rates printed to four decimals from a few hundred items leave very few possible counts; several lines on
the same items usually leave one. Where they leave none, the lines were not scored on such items.
Everything is exact integer search; nothing is fitted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.consistency.reported import (
    OVER_ALL,
    Columns,
    CountRange,
    Rate,
    Recovery,
    ReportedRun,
    ReportedTable,
    Solution,
    SolvedLine,
)
from tinsmith.stats.rates import ClassMetric, Metric
from tinsmith.types.errors import DataError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """Counts from `low` to `high`, both included, per candidate (M,)."""

    low: Ints
    high: Ints

    @property
    def possible(self) -> NDArray[np.bool_]:
        """True for windows that are not empty."""
        return self.low <= self.high

    def meet(self, other: Window) -> Window:
        """Return what both allow."""
        return Window(np.maximum(self.low, other.low), np.minimum(self.high, other.high))


def window(rate: Rate | None, n: Ints) -> Window:
    """Return the counts of n (M,) that print as `rate`; all from 0 to n where it is not given.

    >>> window(Rate.parse("0.378", "label_match"), np.array([500]))
    Window(low=array([189]), high=array([189]))
    """
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
    """Right answers by label that can add up to the total, one label having the lowest recall."""
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

    said: tuple[CountRange, ...]
    invalid: CountRange
    checked: bool  # True if the macro-F1 was enumerated; False where there are too many cases.


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
    kept, found_at = last[fits], {k: _ends(axes[axis], fits, axis) for axis, k in enumerate(free)}
    found_at[derived] = CountRange(int(kept.min()), int(kept.max()))
    said = tuple(found_at[k] for k in range(num_labels))
    return SaidRanges(said, _ends(axes[-1], fits, len(free)), True)


def _f1(correct: int, size: int, said: NDArray[np.int64]) -> NDArray[np.float64]:
    # Impossible cases (said below zero) are ruled out by their bounds; here they only must not divide by 0.
    return 2.0 * correct / np.maximum(size + said, 1)


def _ends(axis_values: NDArray[np.int64], fits: NDArray[np.bool_], axis: int) -> CountRange:
    others = tuple(i for i in range(fits.ndim) if i != axis)
    kept = axis_values[fits.any(axis=others)]
    return CountRange(int(kept[0]), int(kept[-1]))


LARGEST_N = 3000
MOST_SOLUTIONS = 1000
_MOST_CANDIDATES = 20_000_000
_MOST_WORK = 400_000_000


def recover(table: ReportedTable, largest_n: int = LARGEST_N) -> Recovery:
    """Find all class sizes and counts behind a table; n from its own, or from 1 to `largest_n`.

    A label of which no line gives the recall has an unknown size; several such labels are lumped.
    """
    known = tuple(label for label in table.labels if any(run.of_label(ClassMetric.RECALL, label) for run in table.runs))
    hidden = tuple(label for label in table.labels if label not in known)
    # One hidden label has what the others leave; the sizes of two or more stay open.
    columns = Columns((*known, *hidden), ()) if len(hidden) == 1 else Columns(known, hidden)
    first, last = (table.n, table.n) if table.n else (len(table.labels), largest_n)
    sizes_n = _possible_n(table, first, last)
    candidates = [_possible_sizes(table, label, last) for label in columns.sized]
    _check_work(candidates, sizes_n, columns)
    found = itertools.chain.from_iterable(_solve(table, columns, n, candidates) for n in sizes_n.tolist())
    solutions = tuple(itertools.islice(found, MOST_SOLUTIONS))
    truncated = next(found, None) is not None
    reasons = () if solutions or table.n is None else _reasons(table, table.n)
    return Recovery(columns.names, solutions, truncated, (first, last), reasons)


def _possible_n(table: ReportedTable, first: int, last: int) -> Ints:
    """Return the n for which every rate over all items is one of whole items."""
    n = np.arange(first, last + 1)
    possible = np.ones(n.size, np.bool_)
    for run in table.runs:
        for key in OVER_ALL:
            possible &= window(run.rate(key), n).possible
        for label in table.labels:
            possible &= window(run.of_label(ClassMetric.PREDICTED_SHARE, label), n).possible
    return n[possible]


def _possible_sizes(table: ReportedTable, label: str, last: int) -> Ints:
    """Return the class sizes for which every recall of the label is one of whole items."""
    size = np.arange(1, last + 1)
    possible = np.ones(size.size, np.bool_)
    for run in table.runs:
        possible &= window(run.of_label(ClassMetric.RECALL, label), size).possible
    return size[possible]


def _check_work(candidates: list[Ints], sizes_n: Ints, columns: Columns) -> None:
    free = candidates if columns.lumped else candidates[:-1]
    rows = float(np.prod([float(len(one)) for one in free])) if free else 1.0
    if rows > _MOST_CANDIDATES or rows * max(len(sizes_n), 1) > _MOST_WORK:
        what = "these rates are too few to search for the class sizes"
        fix = "name n, or give more lines, more recalls, or more decimals"
        raise DataError(what, field="candidates", value=f"{rows:.0f} for each of {len(sizes_n)} n", fix=fix)


def _solve(table: ReportedTable, columns: Columns, n: int, candidates: list[Ints]) -> Iterator[Solution]:
    sizes = _candidate_sizes(candidates, n, len(columns.lumped))
    for run in table.runs:
        if not len(sizes):
            return
        windows = line_windows(run, columns.sized, bool(columns.lumped), sizes)
        sizes = sizes[windows.possible]
    for row in sizes:
        lines: list[SolvedLine] = []
        for run in table.runs:
            line = _solved_line(run, columns, row)
            if line is None:
                break
            lines.append(line)
        else:
            yield Solution(n, tuple(row.tolist()), tuple(lines))


def _candidate_sizes(candidates: list[Ints], n: int, num_lumped: int) -> Ints:
    """Return the rows of class sizes that sum to n, (M, columns), in ascending order."""
    rows = np.zeros((1, 0), np.int64)
    sums = np.zeros(1, np.int64)
    for one in candidates if num_lumped else candidates[:-1]:
        reached = (sums[:, None] + one[None, :]) <= n - max(num_lumped, 1)
        which, size = np.nonzero(reached)
        rows = np.concatenate([rows[which], one[size][:, None]], axis=1)
        sums = sums[which] + one[size]
    last = n - sums
    if not num_lumped:
        kept = np.isin(last, candidates[-1])
        rows, last = rows[kept], last[kept]
    return np.concatenate([rows, last[:, None]], axis=1)


def _solved_line(run: ReportedRun, columns: Columns, sizes: Ints) -> SolvedLine | None:
    """Tighten one line's windows by each other and by printed means; None where that leaves nothing."""
    n = int(sizes.sum())
    windows = line_windows(run, columns.sized, bool(columns.lumped), sizes[None, :])
    correct, total = [_range(one) for one in windows.correct], _range(windows.total)
    low, high = sum(one.low for one in correct), sum(one.high for one in correct)
    total = CountRange(max(total.low, low), min(total.high, high))
    correct = [
        CountRange(max(one.low, total.low - (high - one.high)), min(one.high, total.high - (low - one.low)))
        for one in correct
    ]
    invalid = _range(windows.invalid)
    said = [
        CountRange(max(a.low, c.low), min(a.high, n - invalid.low - (total.low - c.high)))
        for a, c in zip([_range(one) for one in windows.said], correct, strict=True)
    ]
    found = _adding_up(n, said, invalid)
    narrowed = _by_means(run, columns, sizes.tolist(), correct, found)
    if narrowed is None:
        return None
    return SolvedLine(run.name, tuple(correct), total, narrowed.said, narrowed.invalid, narrowed.checked)


def _adding_up(n: int, said: list[CountRange], invalid: CountRange) -> SaidRanges:
    """Narrow the numbers of answers by their sum: all labels' and the invalid ones make n."""
    every = [*said, invalid]
    low, high = sum(one.low for one in every), sum(one.high for one in every)
    ends = [CountRange(max(one.low, n - (high - one.high)), min(one.high, n - (low - one.low))) for one in every]
    return SaidRanges(tuple(ends[:-1]), ends[-1], False)


def _by_means(
    run: ReportedRun, columns: Columns, sizes: list[int], correct: list[CountRange], found: SaidRanges
) -> SaidRanges | None:
    """Hold the counts against printed means over the labels; None where they contradict."""
    f1 = run.rate(Metric.MACRO_F1.value)
    if columns.lumped:
        return found if f1 is None else _lumped_f1(f1, columns, sizes, correct, found)
    if not all(one.certain for one in correct):
        return found
    right = [one.low for one in correct]
    recalls = [c / size for c, size in zip(right, sizes, strict=True)]
    balanced = run.rate(Metric.BALANCED_ACCURACY.value)
    lowest = run.rate(Metric.MIN_CLASS_RECALL.value)
    if balanced is not None and not balanced.holds(sum(recalls) / len(recalls)):
        return None
    if lowest is not None and not lowest.holds(min(recalls)):
        return None
    return found if f1 is None else said_ranges(f1, sizes, right, found)


def _lumped_f1(
    rate: Rate, columns: Columns, sizes: list[int], correct: list[CountRange], found: SaidRanges
) -> SaidRanges | None:
    """Bound the macro-F1 where some sizes are open: the lump adds at least 0 and at most 1 a label.

    It adds exactly 0 where none of its labels was answered right.
    """
    known = list(zip(sizes, correct, found.said, strict=True))[:-1]
    low = sum(2.0 * c.low / (size + said[1]) for size, c, said in known)
    high = sum(2.0 * c.high / (size + said[0]) for size, c, said in known)
    lump = len(columns.lumped) if correct[-1].high > 0 else 0
    num_labels = len(columns.sized) + len(columns.lumped)
    printed_low = (rate.units - 0.5 - 1e-6) / 10**rate.decimals * num_labels
    printed_high = (rate.units + 0.5 + 1e-6) / 10**rate.decimals * num_labels
    if low > printed_high or high + lump < printed_low:
        return None
    return SaidRanges(found.said, found.invalid, lump == 0)


def _range(window: Window) -> CountRange:
    return CountRange(int(window.low[0]), int(window.high[0]))


def _reasons(table: ReportedTable, n: int) -> tuple[str, ...]:
    """Name the rates that no whole number of n items, or of a class within n, can print as."""
    found: list[str] = []
    for run in table.runs:
        for key, rate in run.rates.items():
            metric, _, label = key.partition("/")
            share = metric == ClassMetric.PREDICTED_SHARE.value
            if (key in OVER_ALL or share) and not window(rate, np.array([n])).possible.any():
                below = n * rate.units // 10**rate.decimals
                less, more = (f"{count / n:.{rate.decimals}f}" for count in (below, below + 1))
                found.append(
                    f"{run.name}: {key} {rate} is no share of {n} items: {below} of them are {less}, "
                    f"{below + 1} are {more}"
                )
            elif metric == ClassMetric.RECALL.value and not window(rate, np.arange(1, n + 1)).possible.any():
                found.append(f"{run.name}: no class of up to {n} items has a {key} of {rate}")
    for label in table.labels:
        if not len(_possible_sizes(table, label, n)):
            found.append(f"no size of the class {label} up to {n} fits its recalls in all lines")
    return tuple(found)
