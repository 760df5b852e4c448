"""Tasks and studies of the user's own, run from Python as `tinsmith run FILE.py` does, and their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, cast, overload

import msgspec
import polars as pl

from tinsmith.lab.experiment.estimate import dry_run as dry_run_lines
from tinsmith.lab.experiment.experiment import with_default_log_path
from tinsmith.lab.experiment.key_text import shown_value, truth
from tinsmith.lab.experiment.materials import require_possible
from tinsmith.lab.page.live_page import conduct_with_page
from tinsmith.lab.runs.files import METRICS, ROLLOUTS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.frames import History, frame_of
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import PAGE, STUDY_JSON, load_study
from tinsmith.lab.study.keys import measure_of
from tinsmith.lab.study.record import Shown, StudyRecord, TableRecord
from tinsmith.lab.study.report import GAINS, gains_record, pictures
from tinsmith.lab.study.study import Study
from tinsmith.lab.user_task.entry import open_task
from tinsmith.lab.user_task.functions import load_file, task_value
from tinsmith.lab.user_task.task import Task
from tinsmith.pages.document import Drawing
from tinsmith.pages.measures import Measure
from tinsmith.pages.page import Plot, framed, plot_of, table
from tinsmith.types.errors import ConfigError, DataError, perhaps
from tinsmith.types.visible import visible
from tinsmith.types.waits import tell, unsaid


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """Result of a run on a task."""

    folder: Path
    report: Path | None
    """Page of the run; None if it stopped early."""
    metrics: Mapping[str, float] = field(repr=False)
    """The last line of `metrics.jsonl`: `eval/reward/total` and so on, by name."""
    alarms: tuple[str, ...]

    @property
    def rollouts(self) -> pl.DataFrame:
        """Every rollout as a row, as in `rollouts.jsonl`; missing fields are null."""
        return frame_of(self.folder / ROLLOUTS)

    def to_polars(self) -> pl.DataFrame:
        """Return the metrics of every step, a row each; a metric that a step lacks is null."""
        return frame_of(self.folder / METRICS)

    def plot(self, *metrics: str) -> Plot:
        """Draw metrics over the steps; without names reward and evaluations."""
        return History(RunFolder(self.folder).read_lines(METRICS)).plot(*metrics)

    def _repr_html_(self) -> str:
        return _page(self.report) or table(("metric", "last"), [(k, f"{v:.4g}") for k, v in self.metrics.items()])


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun:
    """Finished study."""

    folder: Path
    report: Path
    """The page."""
    values: Mapping[str, Any] = field(repr=False)
    """`study.json`."""

    def to_polars(self, table: str = "") -> pl.DataFrame:
        """Return a table of the page by its title, with interval ends; by default the gains, or the first table."""
        return study_frame(record_of(self.values), table)

    def plot(self) -> Plot:
        """Draw the picture that the page begins with."""
        return study_plot(record_of(self.values))

    def _repr_html_(self) -> str:
        return _page(self.report)


@dataclass(frozen=True, slots=True)
class DryRun:
    """Forecast of a run: its settings, a trial answer, and its time; nothing is run or written."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(visible(line) for line in self.lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


_Source = Task | Study | str | Path


@overload
def run(task: _Source, *, dry_run: Literal[True], **changes: object) -> DryRun: ...
@overload
def run(task: Study, *, dry_run: Literal[False] = False, **changes: object) -> StudyRun: ...
@overload
def run(task: Task, *, dry_run: Literal[False] = False, **changes: object) -> TaskRun: ...
@overload
def run(task: str | Path, *, dry_run: Literal[False] = False, **changes: object) -> TaskRun | StudyRun: ...
@overload
def run(task: _Source, *, dry_run: bool, **changes: object) -> TaskRun | StudyRun | DryRun: ...
def run(task: _Source, *, dry_run: bool = False, **changes: object) -> TaskRun | StudyRun | DryRun:
    """Run a task or a study of your own, as `tinsmith run FILE.py key=value ...` does, and leave its folder.

    Args:
        task: a `Task`, a `Study`, or the path of a file with one.
        dry_run: return what the run would take, instead of running it.
        changes: keys and their values: `steps=20, log_path="runs/mine", model_name="tinsmith/smollm2"`.

    Raises:
        ConfigError, DataError: the task, a key or the data are not what they have to be.
        LostError: the server was lost, or a function of the task failed on every rollout of a step; the run can be
            resumed with the same call.
    """
    if not isinstance(cast(object, task), Task | Study | str | Path):
        allowed = "a Task, a Study, or the path of a file with one"
        raise ConfigError("this is nothing to run", field="task", value=task, allowed=allowed)
    overrides = {key: shown_value(value) for key, value in changes.items() if value is not None}
    dry = truth("dry_run", shown_value(dry_run or False))
    overrides |= {"dry_run": "true"} if dry else {}
    study = task if isinstance(task, Study) else load_study(Path(task)) if isinstance(task, str | Path) else None
    if study is not None:
        lines = list[str]()
        say = lines.append if dry else tell
        folder = run_study(study, overrides, say) if isinstance(study, Study) else measure_of(study, overrides)(say)
        if dry:
            return DryRun(tuple(lines))
        values = json.loads((folder / STUDY_JSON).read_text(encoding="utf-8"))
        return StudyRun(folder=folder, report=folder / PAGE, values=MappingProxyType(values))
    assert not isinstance(task, Study), "it was run"
    source = task_value(task) if isinstance(task, Task) else load_file(Path(task))
    plan = with_default_log_path(open_task(source, overrides))
    require_possible(plan)
    if dry:
        return DryRun(tuple(dry_run_lines(plan)))
    done, drawn = conduct_with_page(plan, unsaid if plan.circumstances.quiet else tell)
    steps = RunFolder(done.folder).read_lines(METRICS)
    last = {key: float(value) for key, value in (steps[-1] if steps else {}).items() if isinstance(value, int | float)}
    return TaskRun(
        folder=done.folder,
        report=drawn.page,
        metrics=MappingProxyType(last),
        alarms=tuple(alarm.message for alarm in done.alarms),
    )


def _page(file: Path | None) -> str:
    return framed(file.read_text(encoding="utf-8")) if file is not None and file.exists() else ""


_ENDS: Final = ("low", "high")


def record_of(values: Mapping[str, Any]) -> StudyRecord:
    """Return the values that `study.json` holds."""
    return msgspec.convert(dict(values), StudyRecord)


def study_frame(study: StudyRecord, table: str = "") -> pl.DataFrame:
    """Return a table of a study's page by its title; by default the arms' gains, or the first table.

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
    columns: dict[str, Sequence[Any]] = {table.names.lower(): [name.replace("|", ", ") for name, _ in table.rows]}
    for place, column in enumerate(table.columns):
        cells: list[Shown] = [row[place] for _, row in table.rows]
        name = column.head.replace("|", ", ")
        if any(isinstance(one, str) for one in cells):
            columns[name] = [None if one is None else str(one) for one in cells]
            continue
        figures = [one if isinstance(one, Measure) else None for one in cells]
        columns[name] = [None if one is None else one.value for one in figures]
        for end in _ENDS:
            ends = [None if one is None else getattr(one, end) for one in figures]
            if any(one is not None for one in ends):
                columns[f"{name} {end}"] = ends
    return pl.DataFrame(columns)


def study_plot(study: StudyRecord) -> Plot:
    """Draw the picture that a study's page begins with.

    Raises:
        DataError: it has none.
    """
    drawn = next((one for one in pictures(study) if isinstance(one, Drawing)), None)
    return plot_of(None if drawn is None else drawn.svg, f"{study.title} has no picture")
