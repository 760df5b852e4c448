"""Tables and figures of a rubric run's page: the examinations, the rubrics that moved most or never, the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tinsmith.lab.judge.pages.gains import Constant, rate_of
from tinsmith.lab.judge.pages.gathering import Examination, Place, RubricRun, Tally, by_criterion
from tinsmith.lab.results.drawn_metrics import GRADIENT, GROUPS, Drawn, chart_plate, drawn_plates, flags_of
from tinsmith.lab.runs.records import Row
from tinsmith.pages.curves import Limit, Line
from tinsmith.pages.document import Bullets, Fold, Plate, missing
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, measured, number, table_of, text, whole
from tinsmith.pages.wording import counted, signed
from tinsmith.stats.monitors.alarms import AlarmKind

MOST: Final = 12
"""Rows of the criteria that gained most, and of those that lost most; names of those that never move."""
_LONGEST: Final = 400


def examinations_table(run: RubricRun) -> Table | None:
    """Return the examinations by step; None where there is none."""
    greedy = {one.step: one for one in run.greedy}
    if not run.sampled:
        return None

    def row(one: Examination) -> Row:
        return run.run.metrics.get(one.step, {})

    return table_of(
        "On the prompts of the examinations, each pass rate above its 95 % interval over prompts.",
        run.sampled,
        ("Step", lambda one: text(f"{one.step:,}")),
        ("pass rate|sampled", lambda one: measured(rate_of(one))),
        ("all rubrics|share, sampled", lambda one: number(one.all_passed / one.responses)),
        ("pass rate|greedy", lambda one: measured(rate_of(greedy[one.step]) if one.step in greedy else None)),
        ("distinct texts|share, sampled", lambda one: number(one.distinct)),
        ("tokens|an answer, sampled", lambda one: number(row(one).get("eval/tokens/answer"), digits=1)),
        ("KL to base|nats a token", lambda one: number(row(one).get("eval/kl_base"))),
    )


@dataclass(frozen=True, slots=True)
class _Moved:
    criterion: str
    prompts: int
    first: Fraction
    last: Fraction

    @property
    def gain(self) -> Fraction:
        return self.last - self.first


def moved_tables(run: RubricRun) -> tuple[Table, ...]:
    """Return the criteria that gained most, and those that lost most, between the first and the last examination."""
    if len(run.sampled) < 2:
        return ()
    first, last = (by_criterion(run, one.places) for one in (run.sampled[0], run.sampled[-1]))
    moved = [
        _Moved(name, len(first[name]), _mean(first[name]), _mean(last[name]))
        for name in sorted(first.keys() & last.keys())
    ]
    gained = sorted((one for one in moved if one.gain > 0), key=lambda one: -one.gain)
    lost = sorted((one for one in moved if one.gain < 0), key=lambda one: one.gain)
    return tuple(_moved_table(words, found) for words, found in (("gained", gained), ("lost", lost)) if found)


def _moved_table(words: str, found: Sequence[_Moved]) -> Table:
    left = len(found) - MOST
    caption = (
        f"Criteria that {words} most: the share of sampled responses that fulfil them, mean over the prompts that have "
        "them. Picked by size out of many, so that some of it is chance."
    )
    if left > 0:
        caption += f" {counted(left, 'criterion', 'criteria')} more {words} less."
    return table_of(
        caption,
        found[:MOST],
        ("Criterion", lambda one: text(_cut(one.criterion))),
        ("prompts", lambda one: whole(one.prompts)),
        ("first", lambda one: number(float(one.first))),
        ("last", lambda one: number(float(one.last))),
        ("change", lambda one: Cell(text=signed(float(one.gain)), number=True)),
    )


def stuck(run: RubricRun) -> tuple[Fold, ...]:
    """Return the criteria that held never, or always: in training they teach nothing, in examinations tell nothing."""
    examined: dict[Place, Tally] = {}
    for exam in run.sampled:
        for place, tally in exam.places.items():
            examined.setdefault(place, Tally()).add(tally.held, tally.n)
    found: list[Fold] = []
    for where, places in (
        ("a training response", run.trained.places),
        ("a sampled response of any examination", examined),
    ):
        if places:
            found.append(_stuck(run, f"Never held in {where}", places, Fraction(0)))
            always = where.replace("a ", "every ", 1).replace(" any ", " every ")
            found.append(_stuck(run, f"Held in {always}", places, Fraction(1)))
    return tuple(found)


def _stuck(run: RubricRun, title: str, places: Mapping[Place, Tally], share: Fraction) -> Fold:
    shares = by_criterion(run, places)
    names = [name for name, found in shares.items() if all(each == share for each in found)]
    names.sort(key=lambda name: (-len(shares[name]), name))
    told = f"{title}: {len(names):,} of {counted(len(shares), 'criterion', 'criteria')}"
    more = max(0, len(names) - MOST)
    shown = [_cut(name) for name in names[:MOST]] + ([f"{more} more"] if more else [])
    return Fold(told, [Bullets(shown) if shown else missing("None.")])


def _mean(shares: Sequence[Fraction]) -> Fraction:
    return sum(shares, Fraction()) / len(shares)


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} [cut]"


_DRAWN = (
    Drawn(
        name="distinct",
        title="Distinct texts",
        note="Share of the responses of an examination that are not the same as another one.",
        told="Share of distinct texts",
        lines=(("eval/distinct_texts", "sampled"), ("eval_greedy/distinct_texts", "greedy")),
        marks=(0, 1),
        shares=True,
        alarms=(AlarmKind.SAME_TEXT,),
    ),
    Drawn(
        name="reward",
        title="Training reward",
        note="Mean over the training responses of a step; with a rubric tree it is not the pass rate.",
        lines=(("train/reward/total", "reward"), ("train/pass_rate", "pass rate")),
        missing="Missing: no step has a reward.",
        shares=True,
    ),
    GROUPS,
    Drawn(
        name="tokens",
        title="Tokens an answer",
        note="A reward that can be earned by writing more or less shows here.",
        lines=(
            ("train/tokens/answer", "training"),
            ("eval/tokens/answer", "examined, sampled"),
            ("eval_greedy/tokens/answer", "examined, greedy"),
        ),
        missing="Missing: no step counts its tokens.",
        unit="tokens",
    ),
    Drawn(
        name="kl",
        title="KL divergence to the base",
        note="Estimated on sampled tokens.",
        lines=(("eval/kl_base", "examined prompts"), ("kl/base", "training responses")),
        missing="Missing: no examination has a KL divergence.",
        unit="nats a token",
    ),
    Drawn(
        name="parity",
        title="Sampler to trainer",
        note="KL divergence between the two on the sampled tokens: zero where they are one model.",
        lines=(("optim/kl_sample_train", "sampler to trainer"),),
        missing="Missing: the two were never compared.",
        unit="nats a token",
    ),
    GRADIENT,
)


def rubric_plates(run: RubricRun, constant: Constant | None) -> list[Plate]:
    """Return the figures over time, in their order on the page."""
    return [_pass_rates(run, constant), *drawn_plates(run.run, _DRAWN)]


def _pass_rates(run: RubricRun, constant: Constant | None) -> Plate:
    words = "Held-out prompts" if run.held_out else "Prompts that are also trained on"
    drawn = Drawn(
        name="pass-rate",
        title="Pass rate",
        note=f"{words}; bands are 95 % intervals over prompts.",
        shares=True,
        limit=None if constant is None else Limit(constant.mean, "best text for all"),
    )
    lines = [_rates(run.sampled, "sampled", 0), _rates(run.greedy, "greedy", 1)]
    return chart_plate(drawn, lines, flags=flags_of(run.run, AlarmKind.JUDGE_FAILED))


def _rates(examinations: Sequence[Examination], label: str, place: int) -> Line:
    rates = [rate_of(one) for one in examinations]
    whole = all(rate.low is not None and rate.high is not None for rate in rates)
    return Line(
        label=label,
        mark=series_mark(place),
        steps=[one.step for one in examinations],
        values=[rate.value for rate in rates],
        low=[rate.low or 0.0 for rate in rates] if whole else None,
        high=[rate.high or 0.0 for rate in rates] if whole else None,
    )
