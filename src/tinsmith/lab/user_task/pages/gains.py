"""What a run on a user's own task gained: the last policy against the first and against each baseline, item by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinsmith.lab.user_task.records import Examination, TaskRunRecords
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.pages.tables import Cell, Table, number, signed_cell, table_of, text, whole
from tinsmith.pages.wording import p_words, signed
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.mean_runs import MeanRuns, mean_difference, shared_items
from tinsmith.stats.paired_means import Compared
from tinsmith.stats.significance import ALPHA, holm

BOOTSTRAP = Bootstrap()
_FIRST = "the first evaluation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One comparison over the same items, and whether it holds among all that are made."""

    name: str
    over: str
    """What it is compared with, in words."""
    found: Compared
    p_holm: float
    """Corrected over all comparisons of the page but the first two, which are what the run was made for."""

    @property
    def holds(self) -> bool:
        """Whether the interval leaves out 0, and the corrected test refuses 0."""
        return self.found.apart and self.p_holm <= ALPHA

    @property
    def finding(self) -> str:
        """What it shows."""
        if not self.holds:
            return "cannot tell"
        return "more" if self.found.gain > 0 else "less"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """All comparisons of a run; those that cannot be made are left out."""

    sampled: Gain | None
    greedy: Gain | None
    others: tuple[Gain, ...]
    """Each term, and each baseline."""

    @property
    def all(self) -> tuple[Gain, ...]:
        """In the order of the page."""
        return tuple(one for one in (self.sampled, self.greedy, *self.others) if one is not None)


def gains_of(read: TaskRunRecords) -> Gains:
    """Return what a run gained."""
    others: list[tuple[str, str, Compared | None]] = []
    if len(read.task.terms) > 1:
        others += [(name, _FIRST, _moved(read, read.sampled, name)) for name in read.task.terms]
    if read.sampled:
        last = values_of(read.sampled[-1].by_item(), read)
        others += [
            ("reward", f"the baseline {one.name}", compared(values_of(one.exact(), read), last))
            for one in read.task.baselines
        ]
    return Gains(
        sampled=_primary("reward", read, read.sampled),
        greedy=_primary("reward, greedy", read, read.greedy),
        others=corrected(others),
    )


def corrected(found: Sequence[tuple[str, str, Compared | None]]) -> tuple[Gain, ...]:
    """Return comparisons by name and what each is with, corrected by Holm; those that cannot be made are left out."""
    made = [(name, over, one) for name, over, one in found if one is not None]
    p_values = holm([one.p_value for *_, one in made]) if made else ()
    return tuple(
        Gain(name=name, over=over, found=one, p_holm=p_value)
        for (name, over, one), p_value in zip(made, p_values, strict=True)
    )


def compared(first: MeanRuns | None, second: MeanRuns | None) -> Compared | None:
    """Compare a run with itself at another time, or with a baseline; None where they have no item in common."""
    if first is None or second is None or not set(first.items) & set(second.items):
        return None
    (first, second), _ = shared_items([first, second])
    before, after = first.pooled(), second.pooled()
    gap = mean_difference(second, first, BOOTSTRAP, same_models=True)
    return Compared(
        n=first.num_items,
        first=first.mean(),
        second=second.mean(),
        interval=gap.interval,
        p_value=gap.p_value,
        risen=sum(after[item] > before[item] for item in first.items),
        fallen=sum(after[item] < before[item] for item in first.items),
    )


def values_of(by_item: Mapping[str, Fraction], read: TaskRunRecords) -> MeanRuns | None:
    """Return what items earned in one run; items of one unit are drawn together."""
    return MeanRuns.of("", [by_item], read.units) if by_item else None


def _primary(name: str, read: TaskRunRecords, exams: Sequence[Examination]) -> Gain | None:
    found = _moved(read, exams, "total")
    if found is None:
        return None
    return Gain(name=name, over=_FIRST, found=found, p_holm=found.p_value)


def _moved(read: TaskRunRecords, exams: Sequence[Examination], name: str) -> Compared | None:
    if len(exams) < 2:
        return None
    return compared(values_of(exams[0].by_item(name), read), values_of(exams[-1].by_item(name), read))


def mean_of(by_item: Mapping[str, Fraction], read: TaskRunRecords) -> Measure | None:
    """Return a mean over items with its interval over units; None where there is none."""
    values = values_of(by_item, read)
    return None if values is None else from_estimate(values.estimate(BOOTSTRAP))


def gain_words(one: Gain) -> str:
    """Say a gain with its interval and its test."""
    found = one.found
    interval = (
        "no interval from one item"
        if found.interval is None
        else f"95 % interval {signed(found.interval.low)} to {signed(found.interval.high)}"
    )
    return f"{signed(found.gain)} ({interval}, {p_words(one.p_holm)})"


def gains_table(gains: Sequence[Gain], what: str, corrected_are: str) -> Table | None:
    """Return comparisons as a table, `what` being what is compared; None where there is none."""
    if not gains:
        return None
    return table_of(
        "The answers to one item are averaged first; items of one unit are drawn together. Interval: paired bootstrap "
        "over units. p: the larger of the resamples' and that of flips of the signs of the units' differences, "
        f"two-sided; {corrected_are} corrected by Holm.",
        gains,
        (what, lambda one: text(one.name)),
        (text("against"), lambda one: text(one.over)),
        ("items", lambda one: whole(one.found.n)),
        ("from", lambda one: number(one.found.first)),
        ("to", lambda one: number(one.found.second)),
        ("difference|95 % interval", lambda one: signed_cell(one.found.gain, one.found.interval)),
        ("p", lambda one: Cell(text=_bare(one.p_holm), number=True)),
        ("up / down|items", lambda one: Cell(text=f"{one.found.risen} / {one.found.fallen}", number=True)),
        (text("Finding"), lambda one: text(one.finding)),
    )


def _bare(p_value: float) -> str:
    return p_words(p_value).removeprefix("p ").removeprefix("= ")
