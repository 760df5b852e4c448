"""A figure over the steps that is metrics as they stand in metrics.jsonl: its words, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.reports.curves import Chart, Line
from tinsmith.reports.document import Plate
from tinsmith.reports.palette import INK, Mark, series_mark
from tinsmith.reports.run_figures import last_values, line, plate
from tinsmith.runs.run_records import Run

NO_EXAMINATION = "Missing: there was no examination."


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """See the module."""

    name: str
    title: str
    note: str
    lines: Sequence[tuple[str, str]]
    """Key and what it is called."""
    missing: str = NO_EXAMINATION
    unit: str = ""
    shares: bool = False


def drawn_plate(run: Run, drawn: Drawn) -> Plate:
    """Draw a figure; a line that another one lies on is left out."""
    lines: list[Line] = []
    for key, label in drawn.lines:
        mark = series_mark(len(lines)) if len(drawn.lines) > 1 else Mark(INK, "-", "o")
        one = line(run, key, label, mark)
        # A reward is the pass rate where no task has a tree; added up otherwise, its last bits may differ.
        if one.steps and not any(_same(one, other) for other in lines):
            lines.append(one)
    return plate(
        drawn.title,
        drawn.note,
        Chart(
            name=drawn.name,
            label=f"{drawn.title} over steps: {last_values(lines)}.",
            lines=lines,
            shares=drawn.shares,
            unit=drawn.unit,
        ),
        drawn.missing,
    )


def _same(one: Line, other: Line) -> bool:
    return list(one.steps) == list(other.steps) and all(
        math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one.values, other.values, strict=True)
    )
