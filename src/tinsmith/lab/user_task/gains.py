"""What a run on a user's own task gained: the last policy against the first and against each baseline, item by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinsmith.lab.user_task.records import Examination, TaskRunRecords
from tinsmith.pages.measures import Measure
from tinsmith.pages.tables import Cell, Table, TableRow, column, signed_cell, text, whole
from tinsmith.pages.wording import p_words, signed
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.paired_means import ALPHA, PairedMeans, mean_interval, paired_means
from tinsmith.stats.significance import holm

BOOTSTRAP = Bootstrap()


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
    others: list[tuple[str, str, PairedMeans]] = []
    if len(read.sampled) > 1 and len(read.task.terms) > 1:
        for name in read.task.terms:
            found = _moved(read.sampled, name)
            if found is not None:
                others.append((name, "the first evaluation", found))
    if read.sampled:
        last = read.sampled[-1].by_item()
        for one in read.task.baselines:
            by_item = {item: Fraction(repr(value)) for item, value in one.by_item.items()}
            if by_item.keys() & last.keys():
                found = paired_means(by_item, last, BOOTSTRAP)
                others.append(("reward", f"the baseline {one.name}", found))
    corrected = holm([found.p_value for *_, found in others]) if others else ()
    return Gains(
        sampled=_primary("reward", read.sampled),
        greedy=_primary("reward, greedy", read.greedy),
        others=tuple(
            Gain(name=name, over=over, found=found, p_holm=p_value)
            for (name, over, found), p_value in zip(others, corrected, strict=True)
        ),
    )


def _primary(name: str, exams: Sequence[Examination]) -> Gain | None:
    found = _moved(exams, "total")
    if found is None:
        return None
    return Gain(name=name, over="the first evaluation", found=found, p_holm=found.p_value)


def _moved(exams: Sequence[Examination], name: str) -> PairedMeans | None:
    if len(exams) < 2:
        return None
    first, last = exams[0].by_item(name), exams[-1].by_item(name)
    return paired_means(first, last, BOOTSTRAP) if first.keys() & last.keys() else None


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


def gains_table(gains: Gains) -> Table | None:
    """Return the comparisons of one run; None where there is none."""
    if not gains.all:
        return None
    return Table(
        caption="The answers to one item are averaged first; the item is the unit. Interval: paired bootstrap over "
        "items. p: flips of the signs of the items' differences, two-sided; that of terms and baselines is corrected "
        "by Holm.",
        heads=(
            text("Of the trained model"),
            text("against"),
            column("items"),
            column("from"),
            column("to"),
            column("difference", "95 % interval"),
            column("p"),
            column("up / down", "items"),
            text("Finding"),
        ),
        rows=tuple(_row(one) for one in gains.all),
    )


def _row(one: Gain) -> TableRow:
    found = one.found
    finding = "cannot tell"
    if one.holds:
        finding = "more" if found.gain > 0 else "less"
    p_value = p_words(one.p_holm).removeprefix("p ").removeprefix("= ")
    return TableRow(
        name=text(one.name),
        cells=(
            text(one.over),
            whole(found.n),
            Cell(text=f"{found.first:.3f}", number=True),
            Cell(text=f"{found.second:.3f}", number=True),
            signed_cell(found.gain, found.interval),
            Cell(text=p_value, number=True),
            Cell(text=f"{found.risen} / {found.fallen}", number=True),
            text(finding),
        ),
    )
