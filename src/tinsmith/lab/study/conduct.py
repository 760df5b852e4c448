"""Runs what of a study has not been run, and writes what came out: one function for every study."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Study as StudyCells
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, Tuned, conduct_study
from tinsmith.lab.study.measures import BEFORE, ArmRuns, Results, estimated, measure_study
from tinsmith.lab.study.record import Column, CurveRecord, Expected, GainsRecord, Panel, Shown, StudyRecord, TableRecord
from tinsmith.lab.study.report import page_of_study, sentences
from tinsmith.lab.study.results import DRAWS, Draws, hashes_in, seconds_in
from tinsmith.lab.study.sizes import cells_of, settings_of, size_of
from tinsmith.lab.study.study import BeforeAfter, Curve, Listing, Measure, PerItem, Study, Table
from tinsmith.lab.study.task_arms import read_runs, tried_on_tasks
from tinsmith.lab.study.task_study import minutes_of
from tinsmith.lab.study.tried_rates import Tried
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.pages.measures import Measure as Figure


def run_study(
    study: Study,
    given: Mapping[str, str],
    say: Say,
    *,
    source: TaskSource | None = None,
    run: RunCells = run_cells,
    draws: Draws = DRAWS,
) -> Path:
    """Run it; the same call goes on where it was stopped. Return the study's folder.

    Args:
        study: the study.
        given: `key=value` changes.
        say: takes lines of progress.
        source: where the task comes from, if not from the study's own function.
        run: runs cells where no cluster was asked for.
        draws: how intervals are drawn.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    cells = cells_of(study, given, source)
    size = study.sizes[size_of(study, given)]

    def conduct(stages: Stages) -> Outcome:
        tuned: Tuned = stages.tune(cells, cells.arms)
        stages.report(tuned)
        by_name = {one.name: one for one in study.arms}
        reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
        arms = {
            name: ArmRuns(by_name[name], read, study.clusters or partial(_unit, read.clusters), size.before)
            for name, read in reads.items()
        }
        results = measure_study(study, arms, draws)
        record = record_of(results, cells, tuned)
        seconds = {read.words: seconds_in([one.run for one in read.reads]) for read in reads.values()}
        return Outcome(found=record, sentences=sentences(record), seconds=seconds, page=page_of_study(record, seconds))

    tried = partial(tried_on_tasks, score=study.score.metric)
    return conduct_study(cells, say, conduct, pace=minutes_of, read_tried=tried, run=run)


def _unit(units: Mapping[str, str], item: str) -> str:
    return units.get(item, item)


def record_of(results: Results, cells: StudyCells, tuned: Tuned) -> StudyRecord:
    """Return the values that are kept of a study's results."""
    return recorded(
        results,
        seeds=cells.seeds,
        tuning_seed=cells.tuning_seed,
        settings=settings_of(cells, {name: one.rate for name, one in tuned.items()}),
        rates={one.arm.words: one.tried for one in tuned.values() if one.tried},
    )


def recorded(
    results: Results,
    *,
    seeds: tuple[int, ...],
    tuning_seed: int,
    settings: Mapping[str, object],
    rates: Mapping[str, tuple[Tried, ...]],
) -> StudyRecord:
    """Return the values that are kept of measured runs; see StudyValues for what is given."""
    study, arms = results.study, results.arms
    first = next(iter(arms.values())).read.reads[0]
    curves = [one for one in study.pictures if isinstance(one, Curve)]
    return StudyRecord(
        data=first.run.config.data.fingerprint,
        num_items=len(first.task.items),
        seeds=seeds,
        tuning_seed=tuning_seed,
        settings=settings,
        rates=rates,
        hashes=hashes_in([one.run for arm in arms.values() for one in arm.read.reads]),
        title=study.heading,
        question=study.question,
        source=study.source,
        score=study.score.label,
        arms=tuple(arm.arm.label for arm in arms.values()),
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
            panel for one in study.pictures if isinstance(one, BeforeAfter) for panel in _panels(results, one)
        ),
        curves=tuple(_curve(results, one) for one in curves if one.is_drawn),
        beats=results.beats,
        learned=results.learned,
        notes=tuple(study.notes),
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
    for arm in results.arms.values():
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
    return [
        Panel(
            title=one.label,
            before=tuple(
                estimated(arm.per_item(one, BEFORE), results.draws) if results.gains else None
                for arm in results.arms.values()
            ),
            after=tuple(results.after(name, one) for name in results.arms),
        )
        for one in picture.measures or [results.study.score]
    ]


def _curve(results: Results, curve: Curve) -> CurveRecord:
    lines: list[tuple[str, tuple[int, ...], tuple[Figure, ...]]] = []
    for arm in results.arms.values():
        found = {place: _as_figure(value) for place, value in curve.read(arm).items()}
        known = {place: value for place, value in found.items() if value is not None}
        lines.append((arm.arm.label, tuple(known), tuple(known.values())))
    return CurveRecord(name=curve.name, label=curve.label, axis=curve.axis, shares=curve.shares, lines=tuple(lines))
