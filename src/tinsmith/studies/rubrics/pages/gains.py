"""What a run on rubrics gained: the last policy against the first, and against one text for all, prompt by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinsmith.pages.measures import Measure
from tinsmith.pages.tables import Cell, Table, TableRow, column, signed_cell, text, whole
from tinsmith.pages.wording import p_words, signed
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.paired_means import PairedMeans, mean_interval, paired_means
from tinsmith.studies.rubrics.pages.constant import Constant
from tinsmith.studies.rubrics.pages.gathering import Examination, RubricRun

BOOTSTRAP = Bootstrap()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """The gains of one run; None where one of the two is missing."""

    sampled: PairedMeans | None
    """The last examination against the first, drawn at the training temperature."""
    greedy: PairedMeans | None
    over_constant: PairedMeans | None
    """The last examination, sampled, against the best single text for all prompts."""


def gains_of(run: RubricRun, constant: Constant | None) -> Gains:
    """Return what a run gained."""
    over = None
    if constant is not None and run.sampled:
        over = _compared(constant.by_prompt, run.sampled[-1].by_prompt)
    return Gains(sampled=_gain(run.sampled), greedy=_gain(run.greedy), over_constant=over)


def _gain(examinations: Sequence[Examination]) -> PairedMeans | None:
    if len(examinations) < 2:
        return None
    return _compared(examinations[0].by_prompt, examinations[-1].by_prompt)


def _compared(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> PairedMeans | None:
    """Compare by prompt; None where no prompt has both."""
    if not first.keys() & second.keys():
        return None
    return paired_means(first, second, BOOTSTRAP)


def rate_of(examination: Examination) -> Measure:
    """Return a pass rate with its interval over prompts."""
    values = [float(value) for value in examination.by_prompt.values()]
    interval = mean_interval(values, BOOTSTRAP)
    if interval is None:
        return Measure(examination.mean)
    return Measure(examination.mean, interval.low, interval.high)


def gain_words(found: PairedMeans) -> str:
    """Say a gain with its interval and its test."""
    interval = (
        "no interval from one prompt"
        if found.interval is None
        else f"95 % interval {signed(found.interval.low)} to {signed(found.interval.high)}"
    )
    return f"{signed(found.gain)} ({interval}, {p_words(found.p_value)})"


def finding_words(found: PairedMeans) -> str:
    """Say whether the two can be told apart."""
    if found.told_apart:
        return "more" if found.gain > 0 else "less"
    return "cannot tell: too few prompts" if found.apart else "cannot tell"


def gain_cells(found: PairedMeans, p_value: float | None = None) -> tuple[Cell, ...]:
    """Return the cells of a comparison: prompts, both means, gain, p, up and down."""
    chance = found.p_value if p_value is None else p_value
    return (
        whole(found.n),
        Cell(text=f"{found.first:.3f}", number=True),
        Cell(text=f"{found.second:.3f}", number=True),
        signed_cell(found.gain, found.interval),
        Cell(
            text=p_words(chance).removeprefix("p ").removeprefix("= "),
            under="" if found.exact else "flips drawn",
            number=True,
        ),
        Cell(text=f"{found.risen} / {found.fallen}", number=True),
    )


def gains_table(gains: Gains) -> Table | None:
    """Return the comparisons of one run; None where there is none."""
    rows = [
        TableRow(name=text(name, under), cells=(*gain_cells(found), text(finding_words(found))))
        for name, under, found in (
            ("Sampled", "last examination, minus the first", gains.sampled),
            ("Greedy", "last examination, minus the first", gains.greedy),
            ("Sampled", "last examination, minus the best text for all", gains.over_constant),
        )
        if found is not None
    ]
    if not rows:
        return None
    return Table(
        caption="Responses to one prompt are averaged first; the prompt is the unit. Interval: paired bootstrap over "
        "prompts. p: flips of the signs of the prompts' gains, two-sided, each flip counted unless said otherwise.",
        heads=(
            text("Policy"),
            column("prompts"),
            column("from"),
            column("to"),
            column("gain", "95 % interval"),
            column("p"),
            column("up / down", "prompts"),
            text("Finding"),
        ),
        rows=tuple(rows),
    )
