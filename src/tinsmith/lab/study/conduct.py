"""Studies run: what has not been run is, stage by stage, and what came out is measured and written.

Rates are tried on one seed and chosen by validation alone; then every arm is trained at its own rate with every seed,
none of which chose it, and tested. Runs that came to their end stay: the same call goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tinsmith.lab.experiment.estimate import time_and_disk
from tinsmith.lab.experiment.experiment import Plan, make_plan
from tinsmith.lab.papers.run_data import minutes, missing_before
from tinsmith.lab.results.arms import LabelArm, gather, label_arms
from tinsmith.lab.results.label_tables import settings_of
from tinsmith.lab.runs import records
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.study import sizes
from tinsmith.lab.study.cells import Minutes, RunCells, runner, seconds_of, shared_cores, side_by_side, sole_process
from tinsmith.lab.study.checks import checked
from tinsmith.lab.study.measures import ArmRuns, Results, ends_of, item_score, measure_study, read_runs, score_name
from tinsmith.lab.study.record import DRAWS, Column, CurveRecord, Draws, Seconds, Shown, StudyRecord, TableRecord, Tried
from tinsmith.lab.study.report import write_study
from tinsmith.lab.study.study import Arm, BeforeAfter, Curve, Curves, Listing, Measure, OnRuns, PerItem, Points, Study
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.ops.extension import physical_cores
from tinsmith.pages.document import Section
from tinsmith.pages.measures import BOOTSTRAP, finite, from_estimate
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.page import ending
from tinsmith.stats.estimates import Runs
from tinsmith.stats.mean_runs import MeanRuns, gap_of
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.waits import Say, ticking, unsaid

_MEGABYTES: Final = 8  # Of one run, most of it rollouts and checkpoints.
Missing = Callable[[Plan], Mapping[Path, float]]  # Minutes to build what a run needs first, by place.
Tuned = Mapping[str, sizes.StudyArm]  # Arms at the rates that were chosen for them, by name, in the order of the page.
Heads = Sequence[str | Column]
Made = Mapping[OnRuns, tuple[Sequence[Path], Sequence[Path], tuple[Any, ...]]]
"""Folders of runs, files made on each of them, and what these hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The tuned arms of a study, which decide on later ones."""

    cells: sizes.StudyCells
    tuned: Tuned
    run_cells: RunCells
    say: Say  # Takes lines of progress.

    def rate(self, arm: str) -> float:
        """Return the learning rate that was chosen for an arm."""
        rate = self.tuned[arm].rate
        assert rate is not None, "it is trained"
        return rate

    def run(self, cells: Sequence[sizes.Cell]) -> Sequence[sizes.Cell]:
        """Run cells that have not come to their end, and return them."""
        self.run_cells(cells, self.say)
        return cells


def run_study(
    study: Study,
    given: Mapping[str, str],
    say: Say,
    *,
    open_source: sizes.OpenSource = sizes.no_source,
    run: RunCells | None = None,
    draws: Draws = DRAWS,
) -> Path:
    """Run it; the same call goes on where it was stopped. Return the study's folder.

    `run` runs cells where no cluster was asked for; None: in processes of this machine.
    """
    study, request = sizes.planned(study, given, open_source)
    cells = sizes.first_cells(study, request)
    usual = {one.name: one.rates[0] for one in cells.arms if one.rates}
    pace: Minutes = study.pace or (minutes if study.task is None else lambda plan: data_of_task(plan).minutes())
    missing: Missing = missing_before if study.task is None else lambda plan: data_of_task(plan).missing_base()
    lines = forecast(cells, sizes.later_arms(study, request, usual, {}), pace, None if say is unsaid else missing)
    _require_same_items(cells)
    for line in (*study.warnings, *_unsized(study, request.given), *(lines if cells.dry_run else lines[-1:])):
        say(line)
    if cells.dry_run:
        return cells.out
    with sole_process(cells.out), runner(cells.cluster, pace, run) as run_there:
        found = {} if study.materials is None else study.materials(request, say)
        cells = replace(cells, shared={**cells.shared, **found})
        # Tune the arms that hang on none, then those that these decide on.
        stage = Stage(cells=cells, tuned={}, run_cells=run_there, say=say)
        first = tune(stage, cells.arms, study.score)
        computed = {arm.name: arm.after(replace(stage, tuned=first)) for arm in study.arms if arm.after is not None}
        rates = {name: one.rate for name, one in first.items() if one.rate is not None}
        tuned = {**first, **tune(stage, sizes.later_arms(study, request, rates, computed), study.score)}
        tuned = {arm.name: tuned[arm.name] for arm in study.arms if arm.name in tuned}
        run_there([cell for one in tuned.values() for cell in one.cells], say)
        made = _made(study, cells, tuned, say)
        with ticking("reading the runs, and drawing intervals", say):
            results = _results(study, request, tuned, made, draws)
            record = _record(results, cells, tuned, [file for _, files, _ in made.values() for file in files])
        seconds = {arm.arm.label: Seconds.of(arm.runs) for name, arm in results.arms.items() if name in tuned}
        for name, one in tuned.items():
            if study.took is not None and (training := study.took(name)) is not None:
                seconds[one.label] = replace(seconds[one.label], training=training)
        more = () if study.sections is None else study.sections(results)
        conclude(record, seconds, cells.out, say, more)
    return cells.out


def conclude(
    record: StudyRecord, seconds: Mapping[str, Seconds], out: Path, say: Say, more: Sequence[Section] = ()
) -> None:
    """Write a study into its folder, and say what came out: the result and the claims last."""
    sentences, page = write_study(record, seconds, out, more)
    for line in (*sentences[1:], *ending(page)):
        say(line)


def _require_same_items(cells: sizes.StudyCells) -> None:
    """Check that the first arm is evaluated on the same items under its first two seeds, where seeds may draw them."""
    runs = cells.reported(cells.arms[0], next(iter(cells.arms[0].rates), None))[:2] if cells.arms else []
    plans = [make_plan(cell.experiment, cell.overrides) for cell in runs]
    if len(plans) == 2 and getattr(plans[0].frame, "split_seed", 0) < 0:
        first, second = ({item.prompt_id for item in data_of_task(plan).examined_items()} for plan in plans)
        if first != second:
            what, fix = "each seed would be evaluated on items of its own", "split_seed=0 among the keys of the size"
            raise ConfigError(what, field="split_seed", value=-1, allowed="0 or more", fix=fix)


def _unsized(study: Study, given: Mapping[str, str]) -> list[str]:
    """Warn that a pretrained model is asked for by a size that the study does not have."""
    of_one_task = study.task is not None and not study.is_named
    if given.get("at") != sizes.SMALL or sizes.SMALL in study.sizes or not of_one_task:
        return []
    taken = sizes.size_of(study, given)
    return [f"warning: this study has no size {sizes.SMALL}: its numbers are those of {taken}, which suit a small base"]


def forecast(
    cells: sizes.StudyCells, later: Sequence[sizes.StudyArm], pace: Minutes, missing: Missing | None = None
) -> list[str]:
    """Return what a study would take, arm by arm, by the minutes of a run and of bases; nothing is built."""
    arms = [*cells.arms, *later]
    tuning, reported = sum(len(cells.tuning(arm)) for arm in arms), len(arms) * len(cells.seeds)
    runs = tuning + reported
    at_once, threads = shared_cores([physical_cores()], runs, 0)
    every = [
        cell
        for arm in arms
        for cell in (*cells.tuning(arm).values(), *cells.reported(arm, next(iter(arm.rates), None)))
    ]
    bases, looked_for = dict[Path, float](), set[str]()

    def paced(plan: Plan) -> float | None:
        if missing is not None and (own := sizes.own_base(plan)) not in looked_for:  # its texts take seconds to write
            looked_for.add(own)
            bases.update(missing(plan))
        return pace(plan)

    seconds = seconds_of(every, threads, paced)
    taken = None if seconds is None else side_by_side(seconds, at_once) / 60 + sum(bases.values())
    first = f"{'a small base' if len(bases) == 1 else f'{len(bases)} small bases'} and " if bases else ""
    own = [" ".join((arm.experiment.name, *(f"{key}={value}" for key, value in arm.keys.items()))) for arm in arms]
    rates = [", ".join(f"{rate:g}" for rate in arm.rates) if len(arm.rates) > 1 else "" for arm in arms]
    shared = " ".join(f"{key}={value}" for key, value in cells.shared.items() if key != "quiet")
    return [
        f"{cells.name}: {cells.question}",
        *(
            f"{arm.label}: {keys}{f', learning rates {tried}' if tried else ''}"
            for arm, keys, tried in zip(arms, own, rates, strict=True)
        ),
        *([f"all arms: {shared}"] if shared else []),
        f"{tuning} runs to choose rates on seed {cells.tuning_seed}, {reported} to report",
        f"{first}{runs} runs in {cells.out / sizes.CELLS}: {time_and_disk(taken, runs * _MEGABYTES)}",
    ]


def tune(stage: Stage, arms: Sequence[sizes.StudyArm], score: PerItem | Metric) -> dict[str, sizes.StudyArm]:
    """Try the rates of arms, and choose."""
    cells = {arm.name: stage.cells.tuning(arm) for arm in arms}
    stage.run([cell for some in cells.values() for cell in some.values()])
    found: dict[str, sizes.StudyArm] = {}
    for arm in arms:
        folders = {rate: cell.folder for rate, cell in cells[arm.name].items()}
        tried = tried_rates(folders, score) if folders else ()
        rate = chosen(tried).rate if tried else next(iter(arm.rates), None)
        if tried:
            stage.say(f"{arm.label}: learning rate {rate:g}, by validation")
        found[arm.name] = replace(arm, rate=rate, tried=tried, cells=stage.cells.reported(arm, rate))
    return found


def chosen(tried: Sequence[Tried]) -> Tried:
    """Return the rate whose checkpoint was best on validation; the smaller one of two that were equal."""
    return max(tried, key=lambda one: (one.validation, one.tie_break, -one.rate))


def tried_rates(folders: Mapping[float, Path], score: PerItem | Metric) -> tuple[Tried, ...]:
    """Return what finished runs scored on validation, by rate, and what each is behind the chosen one."""
    found = [
        (Tried(rate=rate, validation=one.score.value, tie_break=one.score.tie_break), one)
        for rate, folder in folders.items()
        for one in [_on_task(folder, score) if isinstance(score, PerItem) else _on_labels(folder)]
    ]
    best = chosen([tried for tried, _ in found])
    first = next(one for tried, one in found if tried is best)
    return tuple(
        tried
        if tried is best or first.answers is None or one.answers is None
        else replace(tried, behind=from_estimate(gap_of(first.answers, one.answers, first.metric, BOOTSTRAP)))
        for tried, one in found
    )


@dataclass(frozen=True, slots=True)
class _Validated:
    score: records.Score
    answers: Runs | MeanRuns | None
    metric: str


def _on_labels(folder: Path) -> _Validated:
    run = read_run(folder)
    selected = run.manifest and run.manifest.selected
    if not selected or not selected.score:
        raise DataError(f"{folder} chose no checkpoint", field="selected")
    evaluation = gather(run).evaluations.get((records.Split.EVAL, selected.step))
    return _Validated(selected.score, evaluation and evaluation.runs(folder.name), selected.by)


def _on_task(folder: Path, score: PerItem) -> _Validated:
    run = ArmRuns(Arm(folder.name, folder.name), read_runs([folder]))
    sampled, greedy = (run.per_item(score, greedy=is_greedy) for is_greedy in (False, True))
    return _Validated(records.Score(sampled.mean(), greedy.mean()), sampled, score.metric)


def _made(study: Study, cells: sizes.StudyCells, tuned: Tuned, say: Say) -> Made:
    """Make what arms without runs stand on, once for all arms that share it."""
    made: dict[OnRuns, tuple[Sequence[Path], Sequence[Path], tuple[Any, ...]]] = {}
    for on in dict.fromkeys(arm.on for arm in study.arms if arm.on is not None):
        folders = [on.there] if on.there is not None else [cell.folder for cell in tuned[on.arm].cells]
        files = [cells.out / on.folder / f"{on.name}-seed={seed}.json" for seed in cells.seeds]
        found: list[Any] = []
        for folder, file in zip(folders, files, strict=True):
            say(f"{on.folder}: {file.stem}")
            found.append(on.make(folder, file, say))
        made[on] = folders, files, tuple(found)
    return made


def _results(study: Study, request: sizes.Request, tuned: Tuned, made: Made, draws: Draws) -> Results:
    runs: dict[str, ArmRuns] = {}
    for arm in study.arms:
        if study.task is None and arm.name in tuned:
            reads = tuple(gather(read_run(cell.folder)) for cell in tuned[arm.name].cells)
            runs[arm.name] = LabelArm(arm, reads, bootstrap=draws.tables, tuned=tuned[arm.name])
        elif arm.on is not None or arm.name in tuned:
            folders = [cell.folder for cell in tuned[arm.name].cells] if arm.on is None else made[arm.on][0]
            found = () if arm.on is None else made[arm.on][2]
            before = study.sizes[request.size].before
            runs[arm.name] = ArmRuns(arm, read_runs(folders), study.clusters, before, made=found)
    for name, (label, of, split) in study.ways.items():
        arm = runs[of]
        assert isinstance(arm, LabelArm), "the arm is one on labels"
        runs[name] = replace(arm, arm=Arm(name, label, is_aside=True), split=split)
    for arm in runs.values():
        if isinstance(arm, LabelArm):
            arm.system(study.score)  # refuses an arm of which a seed was not tested, in claims or not
    return measure_study(study, runs, draws)


def _record(results: Results, cells: sizes.StudyCells, tuned: Tuned, files: Sequence[Path]) -> StudyRecord:
    """Return the values that are kept of a study's results; `files` are hashed too."""
    staged = {arm.name for arm in results.study.arms if arm.is_staged}
    settings = cells.settings(list(tuned.values()))
    rated = {one.label: one.tried for name, one in tuned.items() if one.tried or (one.rates and name not in staged)}
    for arm in results.study.arms:
        settings |= {f"{arm.name}.{key}": str(value) for key, value in arm.keys.items() if arm.on is not None}
    return recorded(
        results,
        hashes={file.stem: {"file_sha256": file_sha256(file)} for file in files},
        seeds=cells.seeds,
        tuning_seed=cells.tuning_seed,
        settings=settings if results.study.task is not None else settings_of(label_arms(results)),
        rates=rated if any(rated.values()) else {},
        chosen={one.label: one.rate for one in tuned.values() if one.tried and one.rate is not None},
    )


def recorded(
    results: Results,
    *,
    seeds: tuple[int, ...],
    settings: Mapping[str, object],
    tuning_seed: int = 0,
    rates: Mapping[str, tuple[Tried, ...]] = MappingProxyType({}),
    chosen: Mapping[str, float] = MappingProxyType({}),
    hashes: Mapping[str, Mapping[str, str | None]] = MappingProxyType({}),
    without_runs: tuple[str, int] | None = None,
) -> StudyRecord:
    """Return the values that are kept of measured runs; see StudyRecord for what is given.

    `hashes` are added to those of the runs; `without_runs` is the data's fingerprint and the number of items where
    there are none.
    """
    study, runs = results.study, [run for arm in results.arms.values() for run in arm.runs]
    pictures, score = study.pictures, study.score
    drawn = [one.read(results) for one in pictures if isinstance(one, Points)]
    measures = [one.measures or [item_score(score)] for one in pictures if isinstance(one, BeforeAfter)]
    curves = [one for one in pictures if isinstance(one, Curve)]
    lines = [line for one in pictures if isinstance(one, Curves) for line in one.read(results)]
    data, num_items = without_runs or (runs[0].config.data.fingerprint, results.num_items)
    return StudyRecord(
        data=data,
        num_items=num_items,
        seeds=seeds,
        tuning_seed=tuning_seed,
        settings=settings,
        rates=dict(rates),
        chosen=dict(chosen),
        hashes={**{name: dict(run.manifest.hashes) if run.manifest else {} for name, run in _named(runs)}, **hashes},
        title=study.title or study.name.replace("_", " ").capitalize(),
        question=study.question,
        source=study.source,
        score=score_name(score),
        arms=results.reported,
        gains=tuple(results.gains.values()),
        baseline=results.baseline,
        more_gains=results.more_gains,
        expectations=tuple(checked(results, one).recorded(one.text) for one in study.expectations),
        figures=results.figures,
        tables=tuple(_tables(results, [one for one in curves if one.is_listed])),
        panels=(*(ends_of(results, one) for some in measures for one in some), *(p for _, some in drawn for p in some)),
        panel_rows=tuple(row for rows, _ in drawn for row in rows),
        curves=(*(_curve(results, one) for one in curves if one.is_drawn), *lines),
        beats=results.beats,
        learned=results.learned,
        notes=(
            *filter(None, (one if isinstance(one, str) else one(results) for one in study.notes)),
            *results.failures,
        ),
        examples=() if study.examples is None else study.examples(results),
    )


def _named(runs: Sequence[records.Run]) -> Iterator[tuple[str, records.Run]]:
    """Name each run by its folder, and by the folders above it where two have one name."""
    for run in runs:
        names = run.folder.absolute().parts
        others = [one.folder.absolute().parts for one in runs if one.folder.absolute() != run.folder.absolute()]
        depth = next(n for n in range(1, len(names) + 1) if all(one[-n:] != names[-n:] for one in others))
        yield "/".join(names[-depth:]), run


def _tables(results: Results, curves: list[Curve]) -> Iterator[TableRecord]:
    for one in results.study.tables:
        if isinstance(one, Listing):
            heads = one.heads(results) if callable(one.heads) else one.heads
            yield replace(_table(one.title, one.caption, heads, one.rows(results)), names=one.names)
        else:
            yield replace(_table(one.title, one.caption, *_by_arm(results, one.measures)), note=one.note)
    axes = dict.fromkeys(one.axis for one in curves)
    for axis in axes:
        listed, rows = [one for one in curves if one.axis == axis], list[list[Shown]]()
        for arm in results.reported_arms.values():
            read = [one.read(arm) for one in listed]
            places = sorted(set[int]().union(*read))
            rows += [[arm.arm.label, str(at), *(finite(some.get(at)) for some in read)] for at in places]
        title = "The figures" if len(axes) == 1 else f"The figures by {axis}"
        yield replace(_table(title, "Means over seeds.", [axis, *(one.label for one in listed)], rows), is_folded=True)


def _table(title: str, caption: str, heads: Heads, rows: Sequence[Sequence[Shown]]) -> TableRecord:
    columns = tuple(head if isinstance(head, Column) else Column(head=head) for head in heads)
    cells = tuple((str(n), tuple(c if isinstance(c, str) else finite(c) for c in cells)) for n, *cells in rows)
    return TableRecord(title=title, caption=caption, columns=columns, rows=cells)


def _by_arm(results: Results, measures: Sequence[Measure | PerItem]) -> tuple[list[Column], list[list[Shown]]]:
    """Return heads and a row for each arm, of figures; and of values of items before, after, and above another arm."""
    heads: list[Column] = []
    rows: dict[str, list[Shown]] = {name: [arm.arm.label] for name, arm in results.arms.items()}
    second = results.arms.get(results.study.against)
    for one in measures:
        if isinstance(one, Measure):
            heads.append(Column(head=one.label, form=one.form, missing=one.missing))
        else:
            heads += [Column(head=f"{one.label}|before"), Column(head=f"{one.label}|after")]
            if second is not None:
                heads.append(Column(head=f"{one.label}|above {second.arm.label}", form="+.3f", missing="itself"))
        for name, row in rows.items():
            if isinstance(one, Measure):
                row.append(results.figures[name][one.name])
            else:
                row += [results.before(name, one) if results.arms[name].has_before else None, results.after(name, one)]
                if second is not None:
                    other = second.arm.name
                    row.append(None if name == other else results.gap(name, other, one))
    return heads, list(rows.values())


def _curve(results: Results, curve: Curve) -> CurveRecord:
    lines: dict[str, dict[int, Figure]] = {}
    for arm in results.reported_arms.values():
        read = {place: finite(value) for place, value in curve.read(arm).items()}
        lines[arm.arm.label] = {place: one for place, one in read.items() if one is not None}
    return CurveRecord.of(curve.name, curve.label, lines, axis=curve.axis, shares=curve.shares)
