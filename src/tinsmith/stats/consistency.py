"""Integer confusion counts behind published rates: items per class, and correct answers per class.

A printed 0.2910 says more than 0.291: it pins the count behind it to a window half as wide as the last digit. Ties are
accepted both ways, because programs differ in how they round them. Rates printed to four decimals from a few hundred
items leave very few possible counts; several lines on the same items usually leave one. Where they leave none, the
lines were not scored on such items. Everything is exact integer search; nothing is fitted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.rates import ClassMetric, Metric
from tinsmith.types.errors import DataError

OVER_ALL = (Metric.LABEL_MATCH.value, Metric.INVALID_RATE.value, "parse_ok", "format_strict_ok")
"""Rates over all items."""
OF_ALL_LABELS = (Metric.MIN_CLASS_RECALL.value, Metric.MACRO_F1.value, Metric.BALANCED_ACCURACY.value)
OF_ONE_LABEL = (ClassMetric.RECALL.value, ClassMetric.PREDICTED_SHARE.value)
_ALLOWED = ", ".join((*OVER_ALL, *OF_ALL_LABELS, *(f"{k}/LABEL" for k in OF_ONE_LABEL)))
_EXACT_DECIMALS = 9
_FORM = re.compile(r"\d(\.\d*)?|\.\d+")


@dataclass(frozen=True, slots=True)
class Rate:
    """Share in [0, 1] as printed: units * 10**-decimals, rounded from the true share."""

    units: int
    decimals: int

    @classmethod
    def parse(cls, text: str | Decimal, key: str) -> Rate:
        """Read "0.2910" (four decimals); a bare 0 or 1 is taken as exact.

        >>> Rate.parse("0.2910", "recall/neutral")
        Rate(units=2910, decimals=4)
        """
        plain = format(text, "f") if isinstance(text, Decimal) else text.strip()
        if not _FORM.fullmatch(plain) or Decimal(plain) > 1:
            percent = re.fullmatch(r"(\d+(\.\d+)?) ?%?", plain)
            fix = None
            if percent and 1 < float(percent[1]) <= 100:
                fix = f"a percentage? write {Decimal(percent[1]).scaleb(-2):f}"
            allowed = "0 to 1, written with its decimals, such as 0.2910"
            raise DataError("a rate must be a share of items", field=key, value=plain, allowed=allowed, fix=fix)
        decimals = len(plain.partition(".")[2])
        if decimals > _EXACT_DECIMALS:
            what = "a rate with so many decimals was never rounded"
            raise DataError(what, field=key, value=plain, allowed=f"at most {_EXACT_DECIMALS} decimals")
        if decimals == 0:
            decimals = _EXACT_DECIMALS
        return cls(int(Decimal(plain).scaleb(decimals)), decimals)

    def holds(self, value: float) -> bool:
        """Return true if a number prints so, up to a rounding of the number itself."""
        return abs(value * 10**self.decimals - self.units) <= 0.5 + 1e-6

    def __str__(self) -> str:
        return f"{Decimal(self.units).scaleb(-self.decimals):f}"


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """Rates of one system, by their names in metrics.jsonl."""

    name: str
    rates: Mapping[str, Rate]

    def rate(self, key: str) -> Rate | None:
        """Return a rate; None if it is not published."""
        return self.rates.get(key)

    def of_label(self, metric: ClassMetric, label: str) -> Rate | None:
        """Return one label's rate, or None."""
        return self.rates.get(f"{metric.value}/{label}")


@dataclass(frozen=True, slots=True)
class ReportedTable:
    """Rates of several systems on the same items; `n` is None where the number of items is not published."""

    labels: tuple[str, ...]
    runs: tuple[ReportedRun, ...]
    n: int | None = None

    def __post_init__(self) -> None:
        if len(self.labels) < 2 or len(set(self.labels)) != len(self.labels):
            fix = "name them all, also those without a reported recall"
            raise DataError("a table needs at least two labels", field="labels", value=self.labels, fix=fix)
        if self.n is not None and self.n < 1:
            raise DataError("the number of items must be at least 1", field="n", value=self.n)
        if not self.runs:
            raise DataError("a table needs at least one line", field="runs")
        for run in self.runs:
            if not run.rates:
                raise DataError(f"{run.name}: no rate is given", allowed=_ALLOWED)
            for key in run.rates:
                self._check(run.name, key)

    @classmethod
    def of(
        cls, labels: Sequence[str], lines: Mapping[str, Mapping[str, str | Decimal]], n: int | None = None
    ) -> ReportedTable:
        """Read lines by name, each a mapping from metric names to printed rates."""
        runs = [
            ReportedRun(name, {key: Rate.parse(text, f"{name}: {key}") for key, text in line.items()})
            for name, line in lines.items()
        ]
        return cls(tuple(labels), tuple(runs), n)

    def _check(self, name: str, key: str) -> None:
        metric, slash, label = key.partition("/")
        if not slash and metric in (*OVER_ALL, *OF_ALL_LABELS):
            return
        if not slash or metric not in OF_ONE_LABEL:
            raise DataError(f"{name}: no such rate", field=key, allowed=_ALLOWED)
        if label not in self.labels:
            raise DataError(f"{name}: no such label", field=key, value=label, allowed=self.labels)


class CountRange(NamedTuple):
    """Bounds on a count, from `low` to `high`; equal where it is certain."""

    low: int
    high: int

    @property
    def certain(self) -> bool:
        """True if the count is certain."""
        return self.low == self.high

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class SolvedLine:
    """One system's counts in one solution. Labels of unknown size are merged into the last column."""

    name: str
    correct: tuple[CountRange, ...]
    total: CountRange
    answered: tuple[CountRange, ...]  # Answers by label.
    invalid: CountRange


@dataclass(frozen=True, slots=True)
class Solution:
    """Class sizes that explain every line, and each line's counts."""

    n: int
    sizes: tuple[int, ...]
    lines: tuple[SolvedLine, ...]

    @property
    def best_constant(self) -> float:
        """Accuracy of always answering the largest class, lumped labels left out."""
        return max(self.sizes) / self.n


@dataclass(frozen=True, slots=True)
class Recovery:
    """All solutions, in ascending n and sizes; `truncated` where there are more than were listed."""

    columns: tuple[str, ...]  # Classes that the columns of sizes and counts stand for; a lump is named "a + b".
    solutions: tuple[Solution, ...]
    truncated: bool
    tried: tuple[int, int]  # The smallest and largest n that was tried.
    reasons: tuple[str, ...]  # Rates that alone rule n out, where there is no solution.


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """Counts from `low` to `high`, both included, in arrays of one shape."""

    low: Ints
    high: Ints

    @property
    def possible(self) -> NDArray[np.bool_]:
        """True for windows that are not empty."""
        return self.low <= self.high

    def meet(self, other: Window) -> Window:
        """Return the intersection of two windows."""
        return Window(np.maximum(self.low, other.low), np.minimum(self.high, other.high))


def window(rate: Rate | None, n: Ints) -> Window:
    """Return the counts of n (M,) that print as `rate`; 0 to n where `rate` is None.

    >>> window(Rate.parse("0.378", "label_match"), np.array([500]))
    Window(low=array([189]), high=array([189]))
    """
    if rate is None:
        return Window(np.zeros_like(n), n)
    scale = 2 * 10**rate.decimals
    low = -((-n * (2 * rate.units - 1)) // scale)
    high = n * (2 * rate.units + 1) // scale
    return Window(np.maximum(low, 0), np.minimum(high, n))


def _stacked(windows: Sequence[Window]) -> Window:
    return Window(np.stack([one.low for one in windows], axis=1), np.stack([one.high for one in windows], axis=1))


def _windows(run: ReportedRun, names: Sequence[str], sizes: Ints) -> tuple[Window, Window, Window]:
    """Return the counts behind one line for M candidates: `sizes` (M, columns) of classes, whose rows sum to n.

    They are right answers by class, right ones in all, and answers by class, whose last column are the invalid ones.
    """
    n = sizes.sum(axis=1)
    columns = list(zip(names, sizes.T, strict=True))
    correct = _stacked([window(run.of_label(ClassMetric.RECALL, name), size) for name, size in columns])
    lowest = run.rate(Metric.MIN_CLASS_RECALL.value)
    if lowest is not None:
        correct = correct.meet(Window(window(lowest, sizes).low, sizes))
    valid = window(run.rate("format_strict_ok"), n)
    invalid = window(run.rate(Metric.INVALID_RATE.value), n).meet(Window(n - valid.high, n - valid.low))
    predicted = [window(run.of_label(ClassMetric.PREDICTED_SHARE, name), n) for name in names]
    return correct, window(run.rate(Metric.LABEL_MATCH.value), n), _stacked([*predicted, invalid])


def _possible(run: ReportedRun, names: Sequence[str], lumped: int, sizes: Ints) -> NDArray[np.bool_]:
    """Return a mask of the candidates that are consistent with one system's rates, (M,)."""
    n = sizes.sum(axis=1)
    correct, total, answers = _windows(run, names, sizes)
    predicted, invalid = answers.low[:, :-1], answers.low[:, -1]
    each = correct.possible & (correct.low <= answers.high[:, :-1])
    each &= predicted + total.low[:, None] <= n[:, None] - sizes + 2 * correct.high
    each &= total.low[:, None] - correct.high <= (n - invalid)[:, None] - predicted
    possible = each.all(axis=1) & answers.possible.all(axis=1) & total.possible
    possible &= window(run.rate("parse_ok"), n).possible
    possible &= (answers.low.sum(axis=1) <= n) & (answers.high.sum(axis=1) >= n)
    low, high = correct.low.sum(axis=1), correct.high.sum(axis=1)
    possible &= (low <= total.high) & (high >= total.low)
    lowest = run.rate(Metric.MIN_CLASS_RECALL.value)
    if lowest is None or lumped:  # the lowest recall may be that of a label inside the lump
        return possible
    # Right answers by label must add up to the total, one label having the lowest recall.
    held = correct.meet(window(lowest, sizes))
    attained = held.possible & (low[:, None] - correct.low + held.low <= total.high[:, None])
    attained &= high[:, None] - correct.high + held.high >= total.low[:, None]
    return possible & attained.any(axis=1)


MOST_CASES = 20_000_000


def answer_ranges(rate: Rate, sizes: Ints, correct: Ints, answers: Window) -> Window | None:
    """Narrow the numbers of answers to those with which (1/K) sum 2 C_kk / (R_k + P_k) prints as `rate`, a macro-F1.

    R_k are `sizes`, C_kk `correct`. The numbers must also belong to some confusion matrix: sum P_k + invalid = n and
    C_kk <= P_k <= C_kk + (n - R_k) - (C - C_kk). All are enumerated, up to a limit; None where none give it.
    """
    n, num_labels = int(sizes.sum()), len(sizes)
    low, high = answers.low.copy(), answers.high.copy()
    low[:-1] = np.maximum(low[:-1], correct)
    high[:-1] = np.minimum(high[:-1], n - sizes - correct.sum() + 2 * correct)
    # The widest range follows from the others, because all answers add up to n.
    derived = int((high - low)[:-1].argmax())
    free = [k for k in range(num_labels + 1) if k != derived]
    axes = [np.arange(low[k], high[k] + 1) for k in free]
    cases = float(np.prod([float(len(axis)) for axis in axes]))
    if cases == 0:
        return None
    if cases > MOST_CASES:
        return answers
    grids = dict(zip(free, np.meshgrid(*axes, indexing="ij", sparse=True), strict=True))
    last = n - sum(grids.values(), np.zeros((), np.int64))
    f1 = sum(
        # Impossible cases (said below zero) are ruled out by their bounds; here they only must not divide by 0.
        2.0 * correct[k] / np.maximum(sizes[k] + (last if k == derived else grids[k]), 1)
        for k in (derived, *free[:-1])
    )
    fits = np.abs(f1 * (10.0**rate.decimals / num_labels) - rate.units) <= 0.5 + 1e-6
    fits &= (last >= low[derived]) & (last <= high[derived])
    if not fits.any():
        return None
    for axis, (k, values) in enumerate(zip(free, axes, strict=True)):
        fitting = values[fits.any(axis=tuple(i for i in range(fits.ndim) if i != axis))]
        low[k], high[k] = fitting[0], fitting[-1]
    low[derived], high[derived] = last[fits].min(), last[fits].max()
    return Window(low, high)


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
    lumped = len(hidden) if len(hidden) > 1 else 0
    sized = known if lumped else (*known, *hidden)
    names = (*sized, " + ".join(hidden)) if lumped else sized
    first, last = (table.n, table.n) if table.n else (len(table.labels), largest_n)
    sizes_n = _possible_n(table, first, last)
    candidates = [_possible_sizes(table, label, last) for label in sized]
    _check_work(candidates if lumped else candidates[:-1], sizes_n)
    solved = itertools.chain.from_iterable(_solve(table, names, lumped, n, candidates) for n in sizes_n.tolist())
    solutions = tuple(itertools.islice(solved, MOST_SOLUTIONS))
    truncated = next(solved, None) is not None
    reasons = () if solutions or table.n is None else _reasons(table, table.n)
    return Recovery(names, solutions, truncated, (first, last), reasons)


def _possible_n(table: ReportedTable, first: int, last: int) -> Ints:
    """Return the n for which every rate over all items is a share of n items."""
    n = np.arange(first, last + 1)
    possible = np.ones(n.size, np.bool_)
    for run in table.runs:
        for key in OVER_ALL:
            possible &= window(run.rate(key), n).possible
        for label in table.labels:
            possible &= window(run.of_label(ClassMetric.PREDICTED_SHARE, label), n).possible
    return n[possible]


def _possible_sizes(table: ReportedTable, label: str, last: int) -> Ints:
    """Return the class sizes for which every recall of the label is a share of whole items."""
    size = np.arange(1, last + 1)
    possible = np.ones(size.size, np.bool_)
    for run in table.runs:
        possible &= window(run.of_label(ClassMetric.RECALL, label), size).possible
    return size[possible]


def _check_work(free: list[Ints], sizes_n: Ints) -> None:
    rows = float(np.prod([float(len(one)) for one in free])) if free else 1.0
    if rows > _MOST_CANDIDATES or rows * max(len(sizes_n), 1) > _MOST_WORK:
        what = "these rates are too few to search for the class sizes"
        fix = "name n, or give more lines, more recalls, or more decimals"
        raise DataError(what, field="candidates", value=f"{rows:.0f} for each of {len(sizes_n)} n", fix=fix)


def _solve(
    table: ReportedTable, names: tuple[str, ...], lumped: int, n: int, candidates: list[Ints]
) -> Iterator[Solution]:
    sizes = _candidate_sizes(candidates, n, lumped)
    for run in table.runs:
        if not len(sizes):
            return
        sizes = sizes[_possible(run, names, lumped, sizes)]
    for row in sizes:
        lines: list[SolvedLine] = []
        for run in table.runs:
            line = _solved_line(run, names, lumped, row)
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
        possible = np.isin(last, candidates[-1])
        rows, last = rows[possible], last[possible]
    return np.concatenate([rows, last[:, None]], axis=1)


def _solved_line(run: ReportedRun, names: tuple[str, ...], lumped: int, sizes: Ints) -> SolvedLine | None:
    n = int(sizes.sum())
    correct, total, answers = (Window(one.low[0], one.high[0]) for one in _windows(run, names, sizes[None, :]))
    total = total.meet(Window(correct.low.sum(), correct.high.sum()))
    correct = _adding_up(correct, total)
    most = n - answers.low[-1] - (total.low - correct.high)
    answers = answers.meet(Window(np.append(correct.low, answers.low[-1]), np.append(most, answers.high[-1])))
    answers = _by_means(run, lumped, sizes, correct, _adding_up(answers, Window(np.array(n), np.array(n))))
    if answers is None:
        return None
    *predicted, invalid = _ranges(answers)
    return SolvedLine(
        run.name, tuple(_ranges(correct)), CountRange(int(total.low), int(total.high)), tuple(predicted), invalid
    )


def _adding_up(parts: Window, total: Window) -> Window:
    """Narrow counts by their sum."""
    low, high = parts.low.sum(), parts.high.sum()
    return parts.meet(Window(total.low - (high - parts.high), total.high - (low - parts.low)))


def _ranges(window: Window) -> list[CountRange]:
    return [CountRange(low, high) for low, high in zip(window.low.tolist(), window.high.tolist(), strict=True)]


def _by_means(run: ReportedRun, lumped: int, sizes: Ints, correct: Window, answers: Window) -> Window | None:
    """Narrow the numbers of answers by printed means over the labels; None if they contradict the counts."""
    f1 = run.rate(Metric.MACRO_F1.value)
    if lumped:
        return answers if f1 is None or _lump_fits(f1, lumped, sizes, correct, answers) else None
    if not (correct.low == correct.high).all():
        return answers
    recalls = correct.low / sizes
    for metric, value in ((Metric.BALANCED_ACCURACY, recalls.mean()), (Metric.MIN_CLASS_RECALL, recalls.min())):
        rate = run.rate(metric.value)
        if rate is not None and not rate.holds(float(value)):
            return None
    return answers if f1 is None else answer_ranges(f1, sizes, correct.low, answers)


def _lump_fits(rate: Rate, lumped: int, sizes: Ints, correct: Window, answers: Window) -> bool:
    """Bound the macro-F1 where some sizes are open: the lump adds at least 0 and at most 1 a label.

    It adds exactly 0 where none of its labels was answered right.
    """
    low = (2.0 * correct.low[:-1] / (sizes[:-1] + answers.high[:-2])).sum()
    high = (2.0 * correct.high[:-1] / (sizes[:-1] + answers.low[:-2])).sum()
    lump = lumped if correct.high[-1] > 0 else 0
    scale = (len(sizes) - 1 + lumped) / 10**rate.decimals
    return bool(low <= (rate.units + 0.5 + 1e-6) * scale and high + lump >= (rate.units - 0.5 - 1e-6) * scale)


def _reasons(table: ReportedTable, n: int) -> tuple[str, ...]:
    """Name the rates that no whole number of n items, or of a class within n, can print as."""
    reasons: list[str] = []
    for run in table.runs:
        for key, rate in run.rates.items():
            metric, _, label = key.partition("/")
            share = metric == ClassMetric.PREDICTED_SHARE.value
            if (key in OVER_ALL or share) and not window(rate, np.array([n])).possible.any():
                below = n * rate.units // 10**rate.decimals
                less, more = (f"{count / n:.{rate.decimals}f}" for count in (below, below + 1))
                reasons.append(
                    f"{run.name}: {key} {rate} is no share of {n} items: {below} of them are {less}, "
                    f"{below + 1} are {more}"
                )
            elif metric == ClassMetric.RECALL.value and not window(rate, np.arange(1, n + 1)).possible.any():
                reasons.append(f"{run.name}: no class of up to {n} items has a {key} of {rate}")
    for label in table.labels:
        if not len(_possible_sizes(table, label, n)):
            reasons.append(f"no size of the class {label} up to {n} fits its recalls in all lines")
    return tuple(reasons)
