"""Runs what of a study has not been run, and writes what came out: one function for every study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.papers.estimate import minutes
from tinsmith.lab.study.arms import Study as StudyCells
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stage, Stages, Tuned, conduct_study
from tinsmith.lab.study.labelled import Labelled
from tinsmith.lab.study.measures import BEFORE, ArmRuns, Results, estimated, item_score, measure_labels, measure_study
from tinsmith.lab.study.record import (
    DRAWS,
    Column,
    CurveRecord,
    Draws,
    Expected,
    GainsRecord,
    Panel,
    Shown,
    StudyRecord,
    TableRecord,
    hashes_in,
    seconds_in,
)
from tinsmith.lab.study.report import page_of_study, sentences
from tinsmith.lab.study.rows import reported_arms
from tinsmith.lab.study.sizes import (
    Asked,
    OpenSource,
    as_text,
    asked_of,
    completed,
    first_cells,
    later_arms,
    no_source,
    settings_of,
)
from tinsmith.lab.study.study import (
    BeforeAfter,
    Curve,
    Curves,
    Listing,
    Measure,
    OnLabels,
    OnRuns,
    PerItem,
    Points,
    Study,
    Table,
)
from tinsmith.lab.study.task_arms import read_runs
from tinsmith.lab.study.tried_rates import Tried, tried_on_tasks
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.pages.measures import Measure as Figure
from tinsmith.types.fingerprints import file_sha256


def run_study(
    study: Study,
    given: Mapping[str, str],
    say: Say,
    *,
    source: TaskSource | None = None,
    open_source: OpenSource = no_source,
    run: RunCells = run_cells,
    draws: Draws = DRAWS,
) -> Path:
    """Run it; the same call goes on where it was stopped. Return the study's folder.

    Args:
        study: the study.
        given: `key=value` changes.
        say: takes lines of progress.
        source: where the task comes from, if not from the study's own function.
        open_source: opens tasks by name.
        run: runs cells where no cluster was asked for.
        draws: how intervals are drawn.
    """
    asked = asked_of(study, given, source, open_source)
    study = completed(study, asked)
    cells = first_cells(study, asked)

    def conduct(stages: Stages) -> Outcome:
        found = {} if study.materials is None else study.materials(asked, say)
        placed = replace(cells, shared={**cells.shared, **found})
        tuned = _tuned(study, asked, placed, stages)
        stages.report(tuned)
        made = _made(study, placed, tuned, say)
        results = _results(study, asked, tuned, made, draws)
        record = record_of(results, placed, tuned, [file for one in made.values() for file in one.files])
        labels = {name: one.arm.words for name, one in tuned.items()}
        seconds = {labels[name]: seconds_in(runs) for name, runs in results.runs.items() if name in tuned}
        for name in tuned:
            training = None if study.took is None else study.took(name)
            if training is not None:
                seconds[labels[name]] = replace(seconds[labels[name]], training=training)
        page = page_of_study(record, seconds, () if study.sections is None else study.sections(results))
        return Outcome(found=record, sentences=sentences(record), seconds=seconds, page=page)

    for line in study.warnings:
        say(line)
    later = later_arms(study, asked, {one.name: one.rates[0] for one in cells.arms if one.rates}, {})
    if isinstance(study.score, OnLabels):
        return conduct_study(cells, say, conduct, later=later, pace=study.pace or minutes, run=run)
    tried = partial(tried_on_tasks, score=study.score.metric)
    return conduct_study(cells, say, conduct, later=later, pace=study.pace or _minutes, read_tried=tried, run=run)


@dataclass(frozen=True, slots=True)
class _Made:
    """Files made on an arm's runs, one a run."""

    folders: Sequence[Path]
    files: Sequence[Path]
    found: tuple[Any, ...]


def _made(study: Study, cells: StudyCells, tuned: Tuned, say: Say) -> dict[OnRuns, _Made]:
    """Make what arms without runs stand on, once for all arms that share it."""
    made: dict[OnRuns, _Made] = {}
    for on in dict.fromkeys(arm.on for arm in study.arms if arm.on is not None):
        folders = [on.there] if on.there is not None else [cell.folder for cell in tuned[on.arm].cells]
        files = [cells.out / on.folder / f"{on.name}-seed={seed}.json" for seed in cells.seeds]
        found: list[Any] = []
        for folder, file in zip(folders, files, strict=True):
            say(f"{on.folder}: {file.stem}")
            found.append(on.make(folder, file, say))
        made[on] = _Made(folders, files, tuple(found))
    return made


def _results(study: Study, asked: Asked, tuned: Tuned, made: Mapping[OnRuns, _Made], draws: Draws) -> Results:
    if isinstance(study.score, OnLabels):
        return measure_labels(study, Labelled.of(study, tuned, draws))
    before = study.sizes[asked.size].before
    runs: dict[str, ArmRuns] = {}
    for arm in study.arms:
        if arm.on is None and arm.name not in tuned:
            continue
        folders = [cell.folder for cell in tuned[arm.name].cells] if arm.on is None else made[arm.on].folders
        read = read_runs(arm.label, folders)
        found = () if arm.on is None else made[arm.on].found
        runs[arm.name] = ArmRuns(arm, read, study.clusters or partial(_unit, read.clusters), before, made=found)
    return measure_study(study, runs, draws)


def _tuned(study: Study, asked: Asked, cells: StudyCells, stages: Stages) -> Tuned:
    """Tune the arms that hang on none, then those that these decide on; return all in the order of the study."""
    first = stages.tune(cells, cells.arms)
    stage = Stage(cells=cells, tuned=first, stages=stages)
    computed = {arm.name: arm.after(stage) for arm in study.arms if arm.after is not None}
    rates = {name: one.rate for name, one in first.items() if one.rate is not None}
    tuned = {**first, **stages.tune(cells, later_arms(study, asked, rates, computed))}
    return {arm.name: tuned[arm.name] for arm in study.arms if arm.name in tuned}


def _minutes(plan: Plan) -> float | None:
    return data_of_task(plan).minutes()


def _unit(units: Mapping[str, str], item: str) -> str:
    return units.get(item, item)


def record_of(results: Results, cells: StudyCells, tuned: Tuned, files: Sequence[Path] = ()) -> StudyRecord:
    """Return the values that are kept of a study's results; `files` are hashed too."""
    rates = {name: one.rate for name, one in tuned.items()}
    settings = settings_of(cells, [one.arm for one in tuned.values()], rates)
    for arm in results.study.arms:
        settings |= {f"{arm.name}.{key}": as_text(str(value)) for key, value in arm.keys.items() if arm.on is not None}
    record = recorded(
        results,
        seeds=cells.seeds,
        tuning_seed=cells.tuning_seed,
        settings=settings if results.labels is None else results.labels.settings(),
        rates={one.arm.words: one.tried for one in tuned.values() if one.tried},
        chosen={one.arm.words: one.rate for one in tuned.values() if one.tried and one.rate is not None},
    )
    hashed = {file.stem: {"file_sha256": file_sha256(file)} for file in files}
    return replace(record, hashes={**record.hashes, **hashed})


def recorded(
    results: Results,
    *,
    seeds: tuple[int, ...],
    tuning_seed: int,
    settings: Mapping[str, object],
    rates: Mapping[str, tuple[Tried, ...]],
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> StudyRecord:
    """Return the values that are kept of measured runs; see StudyRecord for what is given."""
    study, runs = results.study, [run for some in results.runs.values() for run in some]
    drawn = [one.read(results) for one in study.pictures if isinstance(one, Points)]
    lines = [line for one in study.pictures if isinstance(one, Curves) for line in one.read(results)]
    curves = [one for one in study.pictures if isinstance(one, Curve)]
    return StudyRecord(
        data=runs[0].config.data.fingerprint,
        num_items=results.num_items,
        seeds=seeds,
        tuning_seed=tuning_seed,
        settings=settings,
        rates=rates,
        chosen=chosen,
        hashes=hashes_in(runs),
        title=study.heading,
        question=study.question,
        source=study.source,
        score=study.score.label,
        arms=results.reported,
        gains=tuple(results.gains.values()),
        more_gains=tuple(GainsRecord(score=score, gains=gains) for score, gains in results.more_gains.items()),
        expectations=tuple(
            Expected(text=one.text, met=found.met, figures=found.figures)
            for one in study.expectations
            for found in (one.check(results),)
        ),
        figures=results.figures,
        tables=(*(_table(results, one) for one in study.tables), *_listed(results, curves)),
        panels=tuple(
            [
                *(panel for one in study.pictures if isinstance(one, BeforeAfter) for panel in _panels(results, one)),
                *(panel for _, panels in drawn for panel in panels),
            ]
        ),
        panel_rows=tuple(row for rows, _ in drawn for row in rows),
        curves=(*(_curve(results, one) for one in curves if one.is_drawn), *lines),
        beats=results.beats,
        learned=results.learned,
        notes=tuple(filter(None, (one if isinstance(one, str) else one(results) for one in study.notes))),
        examples=() if study.examples is None else study.examples(results),
    )


def _table(results: Results, table: Table | Listing) -> TableRecord:
    if isinstance(table, Listing):
        heads = table.heads(results) if callable(table.heads) else table.heads
        columns = tuple(head if isinstance(head, Column) else Column(head=head) for head in heads)
        rows = tuple((str(name), tuple(cells)) for name, *cells in table.rows(results))
        return TableRecord(title=table.title, caption=table.caption, columns=columns, rows=rows, names=table.names)
    made = [_columns(results, one) for one in table.measures]
    rows = tuple(
        (arm.arm.label, tuple(cell for _, cells in made for cell in cells[name])) for name, arm in results.arms.items()
    )
    columns = tuple(column for some, _ in made for column in some)
    return TableRecord(title=table.title, caption=table.caption, columns=columns, rows=rows, note=table.note)


def _columns(results: Results, one: Measure | PerItem) -> tuple[list[Column], dict[str, list[Shown]]]:
    if isinstance(one, Measure):
        column = Column(head=one.label, form=one.form, missing=one.missing)
        return [column], {name: [figures[one.name]] for name, figures in results.figures.items()}
    heads = [Column(head=f"{one.label}|before"), Column(head=f"{one.label}|after")]
    cells: dict[str, list[Shown]] = {
        name: [estimated(arm.per_item(one, BEFORE), results.draws), results.after(name, one)]
        for name, arm in results.arms.items()
    }
    second = results.study.against
    if second in results.arms:
        heads.append(Column(head=f"{one.label}|above {results.arms[second].arm.label}", form="+.3f", missing="itself"))
        for name, row in cells.items():
            row.append(None if name == second else results.gap(name, second, one))
    return heads, cells


def _listed(results: Results, curves: list[Curve]) -> list[TableRecord]:
    """Return one table of all curves' figures by arm and place on the axis."""
    listed = [one for one in curves if one.is_listed]
    if not listed:
        return []
    rows: list[tuple[str, tuple[Shown, ...]]] = []
    for arm in reported_arms(results).values():
        read = [one.read(arm) for one in listed]
        rows += [
            (arm.arm.label, (str(place), *(_as_figure(some.get(place)) for some in read))) for place in sorted(read[0])
        ]
    columns = (Column(head=listed[0].axis), *(Column(head=one.label) for one in listed))
    caption = "Means over seeds."
    return [TableRecord(title="The figures", caption=caption, columns=columns, rows=tuple(rows), is_folded=True)]


def _as_figure(value: Figure | float | None) -> Figure | None:
    return Figure(float(value)) if isinstance(value, int | float) else value


def _panels(results: Results, picture: BeforeAfter) -> list[Panel]:
    arms = reported_arms(results).values()
    return [
        Panel(
            title=one.label,
            before=tuple(
                estimated(arm.per_item(one, BEFORE), results.draws) if results.gains else None for arm in arms
            ),
            after=tuple(results.after(arm.arm.name, one) for arm in arms),
        )
        for one in picture.measures or [item_score(results.study.score)]
    ]


def _curve(results: Results, curve: Curve) -> CurveRecord:
    lines: list[tuple[str, tuple[int, ...], tuple[Figure, ...]]] = []
    for arm in reported_arms(results).values():
        found = {place: _as_figure(value) for place, value in curve.read(arm).items()}
        known = {place: value for place, value in found.items() if value is not None}
        lines.append((arm.arm.label, tuple(known), tuple(known.values())))
    return CurveRecord(name=curve.name, label=curve.label, axis=curve.axis, shares=curve.shares, lines=tuple(lines))
