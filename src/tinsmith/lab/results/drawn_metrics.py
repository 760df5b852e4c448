"""A figure over the steps that is metrics as they stand in metrics.jsonl: its words, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import Run
from tinsmith.pages.curves import Chart, Flag, Limit, Line, chart_svg, smoothing
from tinsmith.pages.document import Plate
from tinsmith.pages.palette import INK, INVALID_MARK, Mark, class_mark, series_mark
from tinsmith.stats.monitors.alarms import AlarmKind

NO_EXAMINATION = "Missing: there was no examination."
BLACK = Mark(INK, "-", "o")
"""Of a line that stands alone, or for the sum of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Series of a run's metrics to draw."""

    name: str
    title: str
    note: str
    lines: Sequence[tuple[str, str]] = ()
    """Key and what it is called."""
    by_class: str = ""
    """Instead: a metric of every class, by its key up to the class."""
    invalid: str = ""
    """Beside the classes: the key of the share of answers that are none."""
    missing: str = NO_EXAMINATION
    """Says what there is not; empty: the figure is left out."""
    unit: str = ""
    shares: bool = False
    limit: Limit | None = None
    alarms: Sequence[AlarmKind] = ()
    """Kinds that are marked on it."""
    only: Kind | None = None
    """The kind of run that has it; None: all that show it."""


GROUPS: Final = Drawn(
    name="groups",
    title="Informative groups",
    note="Share of the groups whose rewards differ; from the others nothing is learned.",
    lines=(("train/groups/informative", "informative"),),
    missing="Missing: no step says which groups were informative.",
    shares=True,
)
"""Groups that teach something, by step."""

GRADIENT: Final = Drawn(
    name="gradient",
    title="Gradient norm",
    note="Before clipping, at every optimizer step.",
    lines=(("optim/grad_norm", "gradient norm"),),
    missing="Missing: no step has a gradient norm.",
    unit="norm",
)
"""Gradient norm by optimizer step."""


def line(run: Run, key: str, label: str, mark: Mark) -> Line:
    """Return one metric as a line, over the steps that have it."""
    found = {step: value for step, row in run.metrics.items() if (value := row.get(key)) is not None}
    return Line(label=label, mark=mark, steps=list(found), values=list(found.values()))


def flags_of(run: Run, *kinds: AlarmKind) -> tuple[Flag, ...]:
    """Return the alarms of some kinds, numbered as in the table of alarms."""
    slots = {label: class_mark(label, place) for place, label in enumerate(run.labels)}
    return tuple(
        Flag(number, alarm.step, alarm.value, slots.get(alarm.label or ""))
        for number, alarm in enumerate(run.alarms, start=1)
        if alarm.step is not None and alarm.kind in kinds
    )


def drawn_plates(run: Run, figures: Sequence[Drawn], prefix: str = "") -> list[Plate]:
    """Return the figures that a run has, in their order; `prefix` begins the ids of one of several tasks on a page."""
    return [
        plate
        for drawn in figures
        if drawn.only in (None, run.config.kind) and (plate := drawn_plate(run, drawn, prefix)) is not None
    ]


def drawn_plate(run: Run, drawn: Drawn, prefix: str = "") -> Plate | None:
    """Draw a figure of one run; None where it has nothing to show and no word for that."""
    lines = _lines(run, drawn)
    if not drawn.missing and not any(one.steps for one in lines):
        return None
    return chart_plate(drawn, lines, prefix=prefix, flags=flags_of(run, *drawn.alarms))


def _lines(run: Run, drawn: Drawn) -> list[Line]:
    """Return the lines of a figure, those of a class in its colour; of equal ones the first."""
    if drawn.by_class:
        classes = enumerate(run.labels)
        found = [line(run, f"{drawn.by_class}/{name}", name, class_mark(name, place)) for place, name in classes]
        return [*found, *([line(run, drawn.invalid, "invalid", INVALID_MARK)] if drawn.invalid else [])]
    lines: list[Line] = []
    for key, label in drawn.lines:
        one = line(run, key, label, series_mark(len(lines)) if len(drawn.lines) > 1 else BLACK)
        # A reward is the pass rate where no task has a tree; added up otherwise, its last bits may differ.
        if one.steps and not any(_same(one, other) for other in lines):
            lines.append(one)
    return lines


def chart_plate(drawn: Drawn, lines: Sequence[Line], *, prefix: str = "", flags: Sequence[Flag] = ()) -> Plate:
    """Draw lines, or say what is missing."""
    svg = chart_svg(
        Chart(
            name=f"{prefix}{drawn.name}",
            label=f"{drawn.title} over steps: {last_values(lines)}.",
            lines=lines,
            shares=drawn.shares,
            unit=drawn.unit,
            limits=() if drawn.limit is None else (drawn.limit,),
            flags=flags,
        )
    )
    if svg is None:
        return Plate(drawn.title, drawn.missing, None)
    width = smoothing(max(len(one.steps) for one in lines))
    thick = f" Thick: mean of {width} steps." if width > 1 else ""
    return Plate(drawn.title, drawn.note + thick, svg)


def last_values(lines: Sequence[Line]) -> str:
    """Say the first and last value of every line, for a screen reader."""
    told = [f"{one.label} from {one.values[0]:.3f} to {one.values[-1]:.3f}" for one in lines if one.values]
    return ", ".join(told)


def _same(one: Line, other: Line) -> bool:
    return list(one.steps) == list(other.steps) and all(
        math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one.values, other.values, strict=True)
    )
