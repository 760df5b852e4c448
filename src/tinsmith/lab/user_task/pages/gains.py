"""What a run on a user's own task gained: the last policy against the first and against each baseline, item by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinsmith.lab.user_task.records import Examination, TaskRunRecords
from tinsmith.pages.measures import Measure
from tinsmith.pages.tables import Cell, Table, number, signed_cell, table_of, text, whole
from tinsmith.pages.wording import p_words, signed
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.paired_means import ALPHA, PairedMeans, mean_interval, paired_means
from tinsmith.stats.significance import holm

BOOTSTRAP = Bootstrap()
_FIRST = "the first evaluation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One comparison over the same items, and whether it holds among all that are made."""

    name: str
    over: str
    """What it is compared with, in words."""
    found: PairedMeans
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
    others: list[tuple[str, str, PairedMeans | None]] = []
    if len(read.task.terms) > 1:
        others += [(name, _FIRST, _moved(read.sampled, name)) for name in read.task.terms]
    if read.sampled:
        last = read.sampled[-1].by_item()
        others += [("reward", f"the baseline {one.name}", paired(one.exact(), last)) for one in read.task.baselines]
    return Gains(
        sampled=_primary("reward", read.sampled),
        greedy=_primary("reward, greedy", read.greedy),
        others=corrected(others),
    )


def corrected(found: Sequence[tuple[str, str, PairedMeans | None]]) -> tuple[Gain, ...]:
    """Return comparisons by name and what each is with, corrected by Holm; those that cannot be made are left out."""
    made = [(name, over, one) for name, over, one in found if one is not None]
    p_values = holm([one.p_value for *_, one in made]) if made else ()
    return tuple(
        Gain(name=name, over=over, found=one, p_holm=p_value)
        for (name, over, one), p_value in zip(made, p_values, strict=True)
    )


def paired(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> PairedMeans | None:
    """Compare item by item; None where they have none in common."""
    return paired_means(first, second, BOOTSTRAP) if first.keys() & second.keys() else None


def _primary(name: str, exams: Sequence[Examination]) -> Gain | None:
    found = _moved(exams, "total")
    if found is None:
        return None
    return Gain(name=name, over=_FIRST, found=found, p_holm=found.p_value)


def _moved(exams: Sequence[Examination], name: str) -> PairedMeans | None:
    if len(exams) < 2:
        return None
    return paired(exams[0].by_item(name), exams[-1].by_item(name))


def mean_of(by_item: Mapping[str, Fraction]) -> Measure:
    """Return a mean over items with its interval."""
    values = [float(value) for value in by_item.values()]
    mean = sum(values) / len(values)
    interval = mean_interval(values, BOOTSTRAP)
    return Measure(mean) if interval is None else Measure(mean, interval.low, interval.high)


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
        "The answers to one item are averaged first; the item is the unit. Interval: paired bootstrap over items. "
        f"p: flips of the signs of the items' differences, two-sided; {corrected_are} corrected by Holm.",
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
