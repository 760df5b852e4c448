"""Tables and picture of a study for other programs, from its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import polars as pl

from tinsmith.lab.study.record import Shown, StudyRecord, TableRecord
from tinsmith.lab.study.report import GAINS, gains_record, pictures
from tinsmith.pages.document import Drawing
from tinsmith.pages.measures import Measure
from tinsmith.pages.page import Plot, plot_of
from tinsmith.types.errors import DataError, perhaps

_ENDS: Final = ("low", "high")


def record_of(values: Mapping[str, Any]) -> StudyRecord:
    """Return the values that `study.json` holds."""
    return msgspec.convert(dict(values), StudyRecord)


def study_frame(study: StudyRecord, table: str = "") -> pl.DataFrame:
    """Return a table of a study's page by its title; without one the gains of the arms, or the first table there is.

    A figure has three columns: itself, and the ends of its 95 % interval (`NAME low`, `NAME high`) where it has one.

    Raises:
        DataError: there is no such table.
    """
    gains = [gains_record(study.score, study.gains)] if study.gains else []
    tables = {one.title: one for one in (*gains, *study.tables)}
    found = tables.get(table) if table else next(iter(tables.values()), None)
    if found is None:
        fix = perhaps(table, list(tables))
        what = f"{study.title} has no such table"
        raise DataError(what, field="table", value=table or GAINS, allowed=", ".join(tables) or "none", fix=fix)
    return _frame(found)


def _frame(table: TableRecord) -> pl.DataFrame:
    found: dict[str, Sequence[Any]] = {table.names.lower(): [_joined(name) for name, _ in table.rows]}
    for place, column in enumerate(table.columns):
        cells: list[Shown] = [row[place] for _, row in table.rows]
        name = _joined(column.head)
        if any(isinstance(one, str) for one in cells):
            found[name] = [None if one is None else str(one) for one in cells]
            continue
        figures = [one if isinstance(one, Measure) else None for one in cells]
        found[name] = [None if one is None else one.value for one in figures]
        for end in _ENDS:
            ends = [None if one is None else getattr(one, end) for one in figures]
            if any(one is not None for one in ends):
                found[f"{name} {end}"] = ends
    return pl.DataFrame(found)


def _joined(name: str) -> str:
    return name.replace("|", ", ")


def study_plot(study: StudyRecord) -> Plot:
    """Draw the picture that a study's page begins with.

    Raises:
        DataError: it has none.
    """
    drawn = next((one for one in pictures(study) if isinstance(one, Drawing)), None)
    return plot_of(None if drawn is None else drawn.svg, f"{study.title} has no picture")
