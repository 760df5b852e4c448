"""What a run on rubrics gained: the last policy against the first, and against one text for all, prompt by prompt.

That text is the best answer that never reads its prompt, as the judge by rules sees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import compress
from typing import Final

from tinsmith.lab.judge.pages.gathering import Examination, RubricRun
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.judge.rules.rule_text import RuleJudge
from tinsmith.pages.measures import Measure
from tinsmith.pages.tables import Cell, Table, number, signed_cell, table_of, text, whole
from tinsmith.pages.wording import p_words, signed
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.intervals import Interval
from tinsmith.stats.paired_means import PairedMeans, mean_interval, paired_means
from tinsmith.types.errors import DataError

BOOTSTRAP = Bootstrap()
MOST_TEXTS: Final = 5_000
"""Texts that are tried: those that the run wrote most often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The best of the texts that a run wrote, chosen with hindsight on the very prompts it is scored on."""

    text: str
    by_prompt: Mapping[str, Fraction]
    tried: int
    """Texts it was chosen from."""

    @property
    def mean(self) -> float:
        """The mean pass rate over prompts."""
        return float(sum(self.by_prompt.values(), Fraction()) / len(self.by_prompt))


def best_constant(run: RubricRun) -> Constant | None:
    """Return the text that passes most on the prompts of the last examination.

    None where a model judged, the run has no examination, or it did not write its criteria down.
    """
    if run.judge != RULES or not run.sampled:
        return None
    prompts = [prompt for prompt in run.sampled[-1].by_prompt if prompt in run.tasks]
    criteria = sorted({each for prompt in prompts for each in run.tasks[prompt].criteria})
    if len(prompts) < len(run.sampled[-1].by_prompt) or not criteria:
        return None
    try:
        judge = RuleJudge(criteria)
    except DataError:
        return None
    slots = {criterion: slot for slot, criterion in enumerate(criteria)}
    asked = {p: [slots[each] for each in run.tasks[p].criteria] for p in prompts}
    # What a criterion adds to the mean where it holds, in whole numbers over one denominator.
    unit = math.lcm(*map(len, asked.values()))
    worth = [0] * len(criteria)
    for places in asked.values():
        for slot in places:
            worth[slot] += unit // len(places)
    texts = sorted(run.texts, key=lambda text: (-run.texts[text], text))[:MOST_TEXTS]
    best = max(texts, key=lambda text: sum(compress(worth, judge.held(text))))
    held = judge.held(best)
    by_prompt = {prompt: Fraction(sum(held[slot] for slot in places), len(places)) for prompt, places in asked.items()}
    return Constant(text=best, by_prompt=by_prompt, tried=len(texts))


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
    return paired_means(first, second, BOOTSTRAP) if first.keys() & second.keys() else None


def rate_of(examination: Examination) -> Measure:
    """Return a pass rate with its interval over prompts."""
    values = [float(value) for value in examination.by_prompt.values()]
    interval = mean_interval(values, BOOTSTRAP)
    ends = () if interval is None else (interval.low, interval.high)
    return Measure(examination.mean, *ends)


def span(interval: Interval) -> str:
    """Say an interval of a gain."""
    return f"{signed(interval.low)} to {signed(interval.high)}"


def gain_words(found: PairedMeans) -> str:
    """Say a gain with its interval and its test."""
    interval = "no interval from one prompt"
    if found.interval is not None:
        interval = f"95 % interval {span(found.interval)}"
    return f"{signed(found.gain)} ({interval}, {p_words(found.p_value)})"


def p_cell(p_value: float, under: str = "") -> Cell:
    """Return a p-value."""
    said = p_words(p_value).removeprefix("p ").removeprefix("= ")
    return Cell(text=said, under=under, number=True)


Row = tuple[str, str, PairedMeans, float]
"""What is compared, what stands below that, what was found, and its p-value, perhaps corrected."""


def gains_columns(first: str, second: str, gain: str) -> tuple[tuple[str, Callable[[Row], Cell]], ...]:
    """Return the columns of comparisons, prompt by prompt."""
    return (
        ("prompts", lambda row: whole(row[2].n)),
        (first, lambda row: number(row[2].first)),
        (second, lambda row: number(row[2].second)),
        (f"{gain}|95 % interval", lambda row: signed_cell(row[2].gain, row[2].interval)),
        ("p", lambda row: p_cell(row[3], "" if row[2].exact else "flips drawn")),
        ("up / down|prompts", lambda row: Cell(text=f"{row[2].risen} / {row[2].fallen}", number=True)),
    )


def gains_table(gains: Gains) -> Table | None:
    """Return the comparisons of one run; None where there is none."""
    rows = [
        (name, under, found, found.p_value)
        for name, under, found in (
            ("Sampled", "last examination, minus the first", gains.sampled),
            ("Greedy", "last examination, minus the first", gains.greedy),
            ("Sampled", "last examination, minus the best text for all", gains.over_constant),
        )
        if found is not None
    ]
    if not rows:
        return None
    return table_of(
        "Responses to one prompt are averaged first; the prompt is the unit. Interval: paired bootstrap over "
        "prompts. p: flips of the signs of the prompts' gains, two-sided, each flip counted unless said otherwise.",
        rows,
        ("Policy", lambda row: text(*row[:2])),
        *gains_columns("from", "to", "gain"),
        (text("Finding"), lambda row: text(_finding(row[2]))),
    )


def _finding(found: PairedMeans) -> str:
    if found.told_apart:
        return "more" if found.gain > 0 else "less"
    return "inconclusive: too few prompts" if found.apart else "inconclusive"
