"""Rates as a paper or a page prints them, digits included, and the tables they stand in.

A printed 0.2910 says more than 0.291: it pins the count behind it to a window half as wide as the last
digit. Ties are accepted both ways, because programs differ in how they round them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from tinsmith.stats.rates import ClassMetric, Metric
from tinsmith.types.errors import DataError

OVER_ALL = (Metric.LABEL_MATCH.value, Metric.INVALID_RATE.value, "parse_ok", "format_strict_ok")
"""Rates whose denominator is the number of items."""
OF_ALL_LABELS = (Metric.MIN_CLASS_RECALL.value, Metric.MACRO_F1.value, Metric.BALANCED_ACCURACY.value)
OF_ONE_LABEL = (ClassMetric.RECALL.value, ClassMetric.PREDICTED_SHARE.value)
_ALLOWED = ", ".join((*OVER_ALL, *OF_ALL_LABELS, *(f"{k}/LABEL" for k in OF_ONE_LABEL)))
_EXACT_DECIMALS = 9
_FORM = re.compile(r"\d(\.\d*)?|\.\d+")


@dataclass(frozen=True, slots=True)
class Rate:
    """A share in [0, 1] as printed: units * 10**-decimals, rounded from the true one."""

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
        """Whether a number prints so, up to a rounding of the number itself."""
        return abs(value * 10**self.decimals - self.units) <= 0.5 + 1e-6

    def __str__(self) -> str:
        return f"{Decimal(self.units).scaleb(-self.decimals):f}"


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One line of a table: rates by the names they have in metrics.jsonl."""

    name: str
    rates: Mapping[str, Rate]

    def rate(self, key: str) -> Rate | None:
        """Return a rate, or None where the line does not give it."""
        return self.rates.get(key)

    def of_label(self, metric: ClassMetric, label: str) -> Rate | None:
        """Return one label's rate, or None."""
        return self.rates.get(f"{metric.value}/{label}")


@dataclass(frozen=True, slots=True)
class ReportedTable:
    """Lines that were scored on the same items; `n` is None where their number is not told."""

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
            raise DataError(f"{name}: no such label", field=key, value=label, allowed=", ".join(self.labels))


class CountRange(NamedTuple):
    """A count known to lie from `low` to `high`; both equal where it is certain."""

    low: int
    high: int

    @property
    def certain(self) -> bool:
        """True if one count is left."""
        return self.low == self.high

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Columns:
    """Labels whose class sizes are searched, and those whose sizes nothing tells, lumped together."""

    sized: tuple[str, ...]
    lumped: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Classes that the columns of sizes and counts stand for."""
        return (*self.sized, " + ".join(self.lumped)) if self.lumped else self.sized


@dataclass(frozen=True, slots=True)
class SolvedLine:
    """One line's counts in one solution. Labels whose sizes nothing tells are lumped in the last column."""

    name: str
    correct: tuple[CountRange, ...]
    total: CountRange
    said: tuple[CountRange, ...]  # Answers by label.
    invalid: CountRange
    f1_checked: bool  # True if a printed macro-F1 took part; it does where few enough counts are open.


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
