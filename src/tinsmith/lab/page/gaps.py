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
class Gap:
    """The difference of two systems on the items that both have: `second` less `first`."""

    name: str  # Of the second, or of the value.
    against: str
    first: MeanRuns
    second: MeanRuns
    found: Measure
    p_value: float  # Corrected by Holm, unless it is primary.
    error: float | None  # Standard deviation of the difference over the resamples; None of one unit.
    is_primary: bool = False  # True if a run is made for it: its p is not corrected for the others.

    @classmethod
    def of(
        cls,
        name: str,
        against: str,
        systems: tuple[MeanRuns, MeanRuns],
        draws: Bootstrap,
        *,
        same_models: bool = False,
        is_primary: bool = False,
    ) -> list[Gap]:
        """Measure the second of two systems less the first; none where they have no item in common.

        `same_models` is true if row s of both is one run, such as before and after its training.
        """
        if not set(systems[0].items) & set(systems[1].items):
            return []
        (first, second), _ = shared_items(systems)
        gap = mean_difference(second, first, draws, paired=same_models)
        one = cls(
            name=name,
            against=against,
            first=first,
            second=second,
            found=from_estimate(gap),
            p_value=gap.p_value,
            error=None if gap.interval is None else float(np.nanstd(gap.draws)),
            is_primary=is_primary,
        )
        return [one]

    @property
    def holds(self) -> bool:
        """True if the interval leaves out 0 and the test refuses 0."""
        return (self.found.above(0.0) or self.found.below(0.0)) and self.p_value <= ALPHA

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
        ends = self.found.between or "no interval from one unit"
        gain = f"{signed(self.found.value)} (95 % interval {ends}, {p_words(self.p_value)})"
        between = f"{self.first.mean():.3f} to {self.second.mean():.3f}"
        return f"{self.name} against {self.against}: {between}, {gain}: {self.finding}."

    @property
    def row(self) -> list[Shown]:
        """Cells of a table with HEADS."""
        before, after = self.first.pooled(), self.second.pooled()
        both = before.keys() & after.keys()
        moved = " / ".join(str(sum(sign * (after[one] - before[one]) > 0 for one in both)) for sign in (1, -1))
        p_text = p_words(self.p_value).removeprefix("p ").removeprefix("= ")
        ends = Measure(self.first.mean()), Measure(self.second.mean())
        return [f"{self.name}|against {self.against}", f"{len(both):,}", *ends, self.found, p_text, moved, self.finding]

    def row_with_ratio(self, draws: Bootstrap) -> list[Shown]:
        """Return cells of a table with MORE_HEADS."""
        ratio = mean_ratio(self.second, self.first, draws)
        error = None if self.error is None else Measure(self.error)
        return [*self.row, None if ratio is None else from_estimate(ratio), error]


def corrected(found: Sequence[Gap]) -> list[Gap]:
    """Return differences of which those that are not primary are one family, corrected by Holm."""
    family = [one.p_value for one in found if not one.is_primary]
    p_holm = iter(holm(family) if family else ())
    return [one if one.is_primary else replace(one, p_value=next(p_holm)) for one in found]
