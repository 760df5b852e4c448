"""Differences of two systems on the same items, with intervals and p, as rows of a table and as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinsmith.lab.study.record import Shown, apart
from tinsmith.pages.measures import Measure, from_estimate, p_words, signed
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.mean_runs import MeanRuns, mean_difference, mean_ratio, shared_items
from tinsmith.stats.significance import ALPHA, holm

HEADS = ("items", "from", "to", apart("difference"), "p|Holm", "up / down|items", "Finding")
MORE_HEADS = (*HEADS, "ratio|95 % interval", "standard error")
HOW = (
    "The answers to one item are averaged first; items of one unit are drawn together. Interval: bootstrap over units "
    "and seeds. p: the larger of the resamples' and that of flips of the signs of the units' differences, two-sided."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two systems to be compared: `second` less `first`."""

    name: str  # Of the second, or of the value.
    against: str
    first: MeanRuns
    second: MeanRuns
    same_models: bool = False  # True if row s of both is one run, such as before and after its training.
    is_primary: bool = False  # True if a run is made for it: its p is not corrected for the others.


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The difference of a pair."""

    pair: Pair
    num_items: int
    first: float
    second: float
    found: Measure
    p_value: float  # Corrected by Holm, unless the pair is primary.
    up: int
    down: int
    error: float | None  # Standard deviation of the difference over the resamples; None of one unit.

    @property
    def holds(self) -> bool:
        """True if the interval leaves out 0 and the test refuses 0."""
        low, high = self.found.low, self.found.high
        return low is not None and high is not None and not low <= 0.0 <= high and self.p_value <= ALPHA

    @property
    def side(self) -> int:
        """1 if the second is above the first, -1 if below, 0 if that cannot be told."""
        return (1 if self.found.value > 0 else -1) if self.holds else 0

    @property
    def finding(self) -> str:
        """Finding, in a word or two."""
        return ("cannot tell", "more", "less")[self.side]

    @property
    def sentence(self) -> str:
        """The difference in words."""
        low, high = self.found.low, self.found.high
        ends = "no interval from one unit" if low is None or high is None else f"{signed(low)} to {signed(high)}"
        between = f"{self.first:.3f} to {self.second:.3f}"
        gain = f"{signed(self.found.value)} (95 % interval {ends}, {p_words(self.p_value)})"
        return f"{self.pair.name} against {self.pair.against}: {between}, {gain}: {self.finding}."

    @property
    def row(self) -> list[Shown]:
        """Cells of a table with HEADS."""
        p_text = p_words(self.p_value).removeprefix("p ").removeprefix("= ")
        ends = Measure(self.first), Measure(self.second)
        head = f"{self.pair.name}|against {self.pair.against}"
        return [head, f"{self.num_items:,}", *ends, self.found, p_text, f"{self.up} / {self.down}", self.finding]


def row_with_ratio(gap: Gap, draws: Bootstrap) -> list[Shown]:
    """Return cells of a table with MORE_HEADS."""
    ratio = mean_ratio(gap.pair.second, gap.pair.first, draws)
    return [
        *gap.row,
        None if ratio is None else from_estimate(ratio),
        None if gap.error is None else Measure(gap.error),
    ]


def gaps(pairs: Sequence[Pair], draws: Bootstrap) -> list[Gap]:
    """Return the differences of all pairs that have an item in common; those that are not primary are one family."""
    made: list[Gap] = []
    for pair in pairs:
        if not set(pair.first.items) & set(pair.second.items):
            continue
        (first, second), _ = shared_items([pair.first, pair.second])
        before, after = first.pooled(), second.pooled()
        both = before.keys() & after.keys()
        gap = mean_difference(second, first, draws, paired=pair.same_models)
        made.append(
            Gap(
                pair=pair,
                num_items=len(both),
                first=first.mean(),
                second=second.mean(),
                found=from_estimate(gap),
                p_value=gap.p_value,
                up=sum(after[item] > before[item] for item in both),
                down=sum(after[item] < before[item] for item in both),
                error=None if gap.interval is None else float(np.nanstd(gap.draws)),
            )
        )
    family = [one.p_value for one in made if not one.pair.is_primary]
    corrected = iter(holm(family) if family else ())
    return [one if one.pair.is_primary else replace(one, p_value=next(corrected)) for one in made]
