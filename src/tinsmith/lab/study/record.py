"""Kept values of a study: what `study.json` holds, and all that its page is made of but the seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec

from tinsmith.lab.study.arm_gains import ArmGain
from tinsmith.lab.study.results import Seconds, StudyValues
from tinsmith.pages.document import Reply
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.gate.claim import Claim
from tinsmith.types.errors import DataError

Shown = Figure | str | None
"""A cell: a figure, words, or nothing known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    head: str
    form: str = ".3f"
    """As in Python's `format`."""
    missing: str = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """A table: its rows are named, mostly by arms."""

    title: str
    caption: str
    columns: tuple[Column, ...]
    """Beside the names."""
    rows: tuple[tuple[str, tuple[Shown, ...]], ...]
    note: str = ""
    is_folded: bool = False
    names: str = "Arm"
    """Head of the rows' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel of the picture of arms before and after training."""

    title: str
    before: tuple[Figure | None, ...]
    """Empty: the values are no ends of a training."""
    after: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRecord:
    """A picture with a line for each arm: places on the axis, and figures there."""

    name: str
    label: str
    axis: str
    shares: bool
    lines: tuple[tuple[str, tuple[int, ...], tuple[Figure, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Something expected, and whether it was met."""

    text: str
    met: bool
    figures: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GainsRecord:
    """Gains of the arms in one score."""

    score: str
    gains: tuple[ArmGain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleRecord:
    """A held-out item, and how the arms answered it."""

    title: str
    prompt: str
    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord(StudyValues):
    """Values of a study."""

    title: str
    question: str
    source: str
    score: str
    """Label of the score that arms are compared by."""
    arms: tuple[str, ...]
    """Labels, in the order of the page."""
    gains: tuple[ArmGain, ...]
    more_gains: tuple[GainsRecord, ...]
    expectations: tuple[Expected, ...]
    figures: Mapping[str, Mapping[str, Shown]]
    """By the name of the arm, then of the measure."""
    tables: tuple[TableRecord, ...]
    panels: tuple[Panel, ...]
    curves: tuple[CurveRecord, ...]
    beats: tuple[Claim, ...]
    learned: tuple[Claim, ...]
    notes: tuple[str, ...]
    chosen: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of arms that tried several learning rates, by label."""
    panel_rows: tuple[str, ...] = ()
    """Of the panels; empty: the arms."""
    examples: tuple[ExampleRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPage:
    """A published page: values, seconds, and what its author adds."""

    provenance: str
    results: StudyRecord
    seconds: Mapping[str, Seconds]
    remarks: Sequence[str] = ()
    """Lines below the page, in Markdown."""


def read_kept(text: str) -> KeptPage:
    """Return what a values file holds.

    Raises:
        DataError: it is damaged.
    """
    try:
        return msgspec.json.decode(text.encode(), type=KeptPage)
    except msgspec.DecodeError as error:
        raise DataError("these values cannot be read", field="values", value=str(error)) from None


def kept_text(page: KeptPage) -> str:
    """Return the text of a values file."""
    plain = cast(dict[str, object], msgspec.to_builtins(page))
    return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
