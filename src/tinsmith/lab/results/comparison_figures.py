"""The figures of a comparison: arms beside each other over the steps and at the end, seeds as bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from markupsafe import Markup

from tinsmith.data.baselines.report import Baseline, TargetReport
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.drawn_metrics import Drawn, chart_plate, lines_of, series
from tinsmith.lab.results.pooled import Pooled
from tinsmith.lab.results.snapshot import BASELINE_WORDS
from tinsmith.lab.results.views import ViewRow, views_svg
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import Run
from tinsmith.pages.curves import Flag, Limit, Line
from tinsmith.pages.document import Plate
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure, from_figure
from tinsmith.pages.palette import Mark, class_mark, series_mark
from tinsmith.stats.monitors.alarms import AlarmKind, Limits

_LIMITS = Limits()
_MISSING = "Missing: no run answered the validation split."


def arm_line(arm: Arm, key: str, label: str, mark: Mark) -> Line:
    """Return a metric's mean over an arm's seeds, with the band from the smallest to the largest seed."""
    by_step: dict[int, list[float]] = {}
    for member in arm.members:
        for step, value in zip(*series(member.run, key), strict=True):
            by_step.setdefault(step, []).append(value)
    # A step that some seed has not reached would make the mean jump, so the line stops before it.
    steps = [step for step in sorted(by_step) if len(by_step[step]) == len(arm.members)]
    values = [sum(by_step[step]) / len(by_step[step]) for step in steps]
    if len(arm.members) == 1:
        return Line(label=label, mark=mark, steps=steps, values=values)
    return Line(
        label=label,
        mark=mark,
        steps=steps,
        values=values,
        low=[min(by_step[step]) for step in steps],
        high=[max(by_step[step]) for step in steps],
    )


_PROGRESS: Final = (
    Drawn(
        name="progress-0",
        title="macro-F1",
        note="Validation split, sampled.",
        lines=(("eval/macro_f1", ""),),
        shares=True,
        missing=_MISSING,
    ),
    Drawn(
        name="progress-1",
        title="macro-F1, greedy",
        note="Validation split.",
        lines=(("eval_greedy/macro_f1", ""),),
        shares=True,
        missing=_MISSING,
    ),
    Drawn(
        name="progress-2",
        title="Smallest recall",
        note="Validation split, sampled.",
        lines=(("eval/min_class_recall", ""),),
        shares=True,
        limit=Limit(_LIMITS.min_recall, f"alarm below {_LIMITS.min_recall:g}"),
        missing=_MISSING,
    ),
    Drawn(
        name="progress-3",
        title="Informative groups",
        note="Share of groups whose rewards differ; RL only.",
        lines=(("train/groups/informative", ""),),
        shares=True,
        limit=Limit(_LIMITS.min_informative_rate, f"alarm below {_LIMITS.min_informative_rate:g}"),
        missing=_MISSING,
        only=Kind.RL,
    ),
)
"""One line an arm, named after it."""


def progress_plates(arms: Sequence[Arm]) -> list[Plate]:
    """Return one figure a score, with all arms."""
    return [
        chart_plate(
            drawn,
            [
                arm_line(arm, drawn.lines[0][0], arm.name, series_mark(place))
                for place, arm in enumerate(arms)
                if drawn.only in (None, arm.kind)
            ],
        )
        for drawn in _PROGRESS
    ]


def share_plates(arms: Sequence[Arm]) -> list[Plate]:
    """Return one figure an arm: the share of each predicted class, with the alarms of its first seed."""
    return [
        _small_plate(
            Drawn(
                name=f"shares-{place}",
                title=arm.name,
                note=_seeds_note(arm),
                told=f"Predicted share by class of {arm.name}",
                by_class="eval/predicted_share",
                invalid="eval/invalid_rate",
                shares=True,
                limit=Limit(_LIMITS.max_share, ""),
                missing=_MISSING,
            ),
            arm,
            _flags(arm.first),
        )
        for place, arm in enumerate(arms)
    ]


def informative_plates(arms: Sequence[Arm]) -> list[Plate]:
    """Return one figure an RL arm: the share of informative groups by class."""
    return [
        _small_plate(
            Drawn(
                name=f"groups-{place}",
                title=arm.name,
                note=_seeds_note(arm),
                told=f"Informative groups by class of {arm.name}",
                by_class="train/groups/informative",
                shares=True,
                limit=Limit(_LIMITS.min_informative_rate, ""),
                missing="Missing: no step of it says which groups were informative.",
            ),
            arm,
        )
        for place, arm in enumerate(arms)
        if arm.kind is Kind.RL
    ]


def _small_plate(drawn: Drawn, arm: Arm, flags: Sequence[Flag] = ()) -> Plate:
    lines = lines_of(drawn, partial(arm_line, arm), arm.labels)
    return chart_plate(drawn, lines, flags=flags, small=True)


def arm_views(tested: Mapping[str, Pooled], labels: Sequence[str]) -> Markup | None:
    """Draw the three views with one row an arm."""
    rows = [ViewRow(name, one.measures) for name, one in tested.items()]
    return views_svg("views", rows, labels) if rows else None


def ranking_svg(tested: Mapping[str, Pooled], baselines: TargetReport | None) -> Markup | None:
    """Draw the macro-F1 of every arm and baseline with its interval, the arms first."""
    rows: list[tuple[str, Measure | None, Measure | None]] = [
        (name, one.measures.get("macro_f1"), None) for name, one in tested.items()
    ]
    rows += [
        (BASELINE_WORDS[score.baseline][0], None, from_figure(score.macro_f1))
        for score in (baselines.scores if baselines else ())
        if score.baseline is not Baseline.ORACLE
    ]
    highest = max((m.high or m.value for _, *both in rows for m in both if m), default=1.0)
    panel = Panel(
        title="macro-F1, test split",
        dots=[
            Dots("runs, sampled", series_mark(0), [arm for _, arm, _ in rows]),
            Dots("baselines", series_mark(6), [other for _, _, other in rows]),
        ],
        high=min(1.0, highest * 1.1),
        level=True,
    )
    told = "; ".join(f"{name}: {arm or other}" for name, arm, other in rows if arm or other)
    return dots_svg("ranking", f"Macro-F1 with intervals. {told}.", [r[0] for r in rows], [panel])


def _flags(run: Run) -> tuple[Flag, ...]:
    marks = {label: class_mark(label, place) for place, label in enumerate(run.labels)}
    return tuple(
        Flag(0, alarm.step, alarm.value, marks.get(alarm.label or ""))
        for alarm in run.alarms
        if alarm.step is not None and alarm.kind == AlarmKind.SHARE
    )


def _seeds_note(arm: Arm) -> str:
    if len(arm.members) == 1:
        return f"Seed {arm.seeds()}."
    return f"Seeds {arm.seeds()}: mean and range."
