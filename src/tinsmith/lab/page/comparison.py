"""Comparison of runs; runs on one task form an undeclared study.

Its arms are the runs that differ by their seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from rich.table import Table as ConsoleTable

from tinsmith.lab.page.examples import cost_words, failed_words, with_best_text
from tinsmith.lab.page.run_page import HEADS, HOW, MORE_HEADS, Gap, corrected
from tinsmith.lab.results.run_details import status_words, steps_words
from tinsmith.lab.runs.reader import (
    Judging,
    TaskRunRecords,
    by_seed,
    distinct,
    left_out,
    named_base,
    numbered,
    read_run,
    read_task_run,
    seedless,
)
from tinsmith.lab.runs.records import Run, Split
from tinsmith.lab.study.conduct import recorded
from tinsmith.lab.study.measures import AFTER, BEFORE, REWARD, ArmRuns, Results, estimated, item_score, measure_study
from tinsmith.lab.study.record import DRAWS, Column, Draws, Panel, Seconds, Shown, StudyRecord, apart
from tinsmith.lab.study.report import page_of_study, sentences
from tinsmith.lab.study.study import Arm, Beats, Curve, Listing, Measure, PerItem, Points, Reading, Size, Study, Table
from tinsmith.pages.console import console_table
from tinsmith.pages.document import Document, Pairs
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import counted, from_estimate, listed, over_all, signed
from tinsmith.pages.tables import shown
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of runs: its page, console table and sentences."""

    page: Document
    table: ConsoleTable  # For a terminal.
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsCompared:
    """Runs on one task, measured as a study."""

    results: Results
    record: StudyRecord


def study_of_runs(folders: Sequence[Path], draws: Draws = DRAWS) -> RunsCompared:
    """Measure runs on one task; the first arm is the baseline of the others."""
    arms, notes = _arms_on_one_task(folders)
    every = list(arms.values())
    settings = {key: value for key, value in _settings_of(every[0].reads[0]).items() if key not in _differing(every)}
    found = measured_runs(_study(arms, notes), arms, draws, settings)
    return replace(found, record=_with_baselines(found.record, found.results))


def measured_runs(
    study: Study, arms: Mapping[str, ArmRuns], draws: Draws, settings: Mapping[str, object]
) -> RunsCompared:
    """Measure the arms of an undeclared study; `settings` decided the results."""
    results = measure_study(study, arms, draws)
    fewest = min((arm.runs for arm in arms.values()), key=len)
    seeds = tuple(run.config.seed or 0 for run in fewest)
    return RunsCompared(results=results, record=recorded(results, seeds=seeds, settings=settings))


def page_of_runs(comparison: RunsCompared, kind: str, facts: Pairs) -> Document:
    """Return the page of a comparison; `kind` is the line above its title."""
    seconds = {arm.arm.label: Seconds.of(arm.runs) for arm in comparison.results.arms.values() if not arm.arm.is_aside}
    return replace(page_of_study(comparison.record, seconds), kind=kind, facts=facts)


def compared_tasks(folders: Sequence[Path]) -> Comparison:
    """Compare runs on one task."""
    found = study_of_runs(folders)
    return Comparison(_page(found), _console(found), sentences(found.record))


def _arms_on_one_task(folders: Sequence[Path]) -> tuple[dict[str, ArmRuns], tuple[str, ...]]:
    """Read runs on one task: arms by name, and notes on excluded runs and unreadable files.

    Arms are runs that were asked for alike but for the seed; a seed again says nothing new and is left out. Their
    labels are keys that are not the same for all.
    """
    reads = [with_best_text(read_task_run(read_run(folder))) for folder in folders]
    _require_same_task([one.run for one in reads])
    tested = any(Split.TEST in one.tests for one in reads)
    reads = [one.at_test for one in reads]
    evaluated = [one for one in reads if one.sampled and (Split.TEST in one.tests or not tested)]
    if not evaluated:
        what, allowed = "none of these runs was evaluated", "runs with eval_every above 0"
        raise ConfigError(what, field="DIR", value=[str(folder) for folder in folders], allowed=allowed)
    found = by_seed(evaluated, lambda one: (_given(one), seedless(one.run.config.settings)))
    # An arm is called by what was changed of it that is not the same for all, or as the experiment.
    changed = distinct([""] * len(found), [_given(first) for first, *_ in found])
    labels = numbered([own or first.run.config.title for (first, *_), own in zip(found, changed, strict=True)])
    arms = [
        ArmRuns(Arm(f"arm-{place}", label), some) for place, (label, some) in enumerate(zip(labels, found, strict=True))
    ]
    never = f"it was never {'tested' if tested else 'evaluated'}"
    never_there = [(one, never) for one in reads if one not in evaluated]
    again = [(one, "its seed is there already") for one in left_out(evaluated, [arm.reads for arm in arms])]
    out = [f"{one.run.folder}: left out, as {why}." for one, why in (*never_there, *again)]
    notes = (*out, *(f"{one.run.folder.name}: {note}" for one in reads for note in one.notes))
    draw_items = _seeds_draw_items(evaluated, arms)
    return {one.arm.name: replace(one, seeds_draw_items=draw_items) for one in arms}, notes


def _settings_of(read: TaskRunRecords) -> dict[str, object]:
    return {**seedless(read.run.config.settings), **_given(read)}


def _given(read: TaskRunRecords) -> dict[str, object]:
    own = None if read.run.manifest is None else read.run.manifest.identity.get("own_keys")
    keys = cast(dict[str, object], own) if isinstance(own, dict) else {}
    judge = {} if read.judging is None else {"judge": read.judging.judge}
    model = {"model": read.run.config.model_name, **named_base(read.run)}
    return {**seedless(read.run.config.overrides), **keys, **model, **judge}


def _judge_of(arm: ArmRuns) -> str:
    judging = arm.reads[0].judging
    return "" if judging is None else judging.judge


def _require_same_task(runs: Sequence[Run]) -> None:
    first = runs[0]
    for other in runs[1:]:
        if _task(other) != _task(first):
            raise _refused("the task", first, other, first.config.task.name, other.config.task.name)
        then, now = _code(first), _code(other)
        for name in sorted({*then, *now}):
            if then.get(name) != now.get(name):
                raise _refused(f"code.{name}", first, other, then.get(name), now.get(name))


def _task(run: Run) -> str:
    """Return a task's name without its preset's, whose keys may differ as others do."""
    return run.config.task.name.partition("/")[0]


def _code(run: Run) -> Mapping[str, object]:
    code = {} if run.manifest is None else run.manifest.identity.get("code")
    return code if isinstance(code, dict) else {}


def _seeds_draw_items(reads: Sequence[TaskRunRecords], arms: Sequence[ArmRuns]) -> bool:
    """Check that runs answered the same items: all of them, or those with the same seed."""
    if len({_items(one) for one in reads}) == 1:
        return False
    by_seed: dict[int | None, TaskRunRecords] = {}
    for one in reads:
        other = by_seed.setdefault(one.run.config.seed, one)
        if _items(other) != _items(one):
            shared = len(_items(other) & _items(one))
            then, now = f"{len(_items(other))} items", f"{len(_items(one))} items, of which {shared} are the same"
            raise _refused("held-out items", other.run, one.run, then, now)
    first = arms[0]
    for arm in arms[1:]:
        if arm.seeds != first.seeds:
            what, then, now = "held-out items (the seed draws them)", *(f"seeds {list(a.seeds)}" for a in (first, arm))
            raise _refused(what, first.reads[0].run, arm.reads[0].run, then, now)
    return True


def _items(read: TaskRunRecords) -> frozenset[tuple[str, ...]]:
    criteria: dict[str, list[str]] = {}
    for (item, _), text in sorted(read.judging.criteria.items()) if read.judging else ():
        criteria.setdefault(item, []).append(text)
    return frozenset((one.id, one.prompt, *criteria.get(one.id, ())) for one in read.task.items)


def _refused(what: str, first: Run, other: Run, then: object, now: object) -> ConfigError:
    return ConfigError(
        f"{first.folder} and {other.folder} cannot be compared: they differ in {what}",
        field=what,
        value=now,
        allowed=str(then),
        fix="runs of one file with split_seed=0 hold out the same items whatever their seed; eval_items must be equal",
    )


def _study(named: Mapping[str, ArmRuns], notes: Sequence[str]) -> Study:
    first = next(iter(named.values()))
    task, config = first.reads[0].task, first.reads[0].run.config
    arms = list(named.values())
    reads = [one for arm in arms for one in arm.reads]
    of_all = set[str].intersection(*(set(one.sampled[-1].rewards) for one in reads))
    several = all(len(one.sampled) > 1 for one in reads)
    keys = {name: name for name in first.reads[0].terms}
    keys |= {f"metric {name}" if name in keys else name: f"metric/{name}" for name in task.metrics}
    metrics = [PerItem(name, name, key) for name, key in keys.items()]
    apart = [
        one
        if several and one.metric in of_all
        else Measure(f"end {one.name}", f"{one.label}|after", partial(_end, one))
        for one in metrics
    ]
    figures = {label: key for arm in arms for label, key in arm.reads[0].task.figures.items()}
    one_judge = len({_judge_of(arm) for arm in arms}) == 1
    measures = (*_ARM_MEASURES, *_JUDGED) if _judge_of(first) else _ARM_MEASURES
    return Study(
        name=config.task.name,
        title=f"{config.task.name}: {counted(len(reads), 'run')} compared",
        question=config.question,
        task=None,
        arms=tuple(arm.arm for arm in arms),
        sizes={"found": Size()},
        score=replace(REWARD, label=first.reads[0].score),
        against="arm-0" if one_judge else "",
        claims=[Beats(name, "arm-0") for name, arm in list(named.items())[1:] if _judge_of(arm) == _judge_of(first)],
        tables=(
            Table("Arms", "The last evaluation of each arm: means over seeds and items.", measures),
            Listing(
                "Against each other",
                "Arms at their last evaluation, each against those before it (under the same judge) and against every "
                f"baseline of the task; p corrected over this table. {HOW}",
                HEADS,
                _against,
            ),
            *([Table("Terms and metrics", "Over seeds and items, sampled.", apart)] if apart else []),
            *([_metrics_compared(metrics)] if metrics and len(arms) > 1 else []),
            *([_figures(arms, figures)] if figures else []),
            Listing(
                "What differs",
                "Settings and task keys that differ between arms.",
                [arm.arm.label for arm in arms],
                lambda _: _settings(arms),
                names="Key",
            ),
            Listing("Runs", "", _RUNS, _runs, names="Run"),
        ),
        pictures=(
            Curve(
                name="score",
                label=first.reads[0].score,
                read=lambda arm: {step: estimated(arm.at_step(REWARD, step), DRAWS) for step in arm.steps},
            )
            if several
            else Points(partial(_ends, metrics)),
        ),
        notes=(*_notes(arms), *notes),
    )


def _mean_of(metric: PerItem, at: int, *, greedy: bool = False) -> Measure:
    def read(arm: ArmRuns) -> Reading:
        step = arm.steps[at]
        exams = [one.greedy if greedy else one.sampled for one in arm.reads]
        if not all(any(one.step == step for one in some) for some in exams):
            return None
        return arm.at_step(metric, step, greedy=greedy)

    kind = "greedy" if greedy else "sampled"
    return Measure(f"{kind} {at}", f"score|{'first' if at == BEFORE else 'last'}, {kind}", read)


_ARM_MEASURES = (
    Measure("seeds", "seeds", lambda arm: ", ".join(str(one.run.config.seed) for one in arm.reads)),
    _mean_of(REWARD, BEFORE),
    _mean_of(REWARD, AFTER),
    _mean_of(REWARD, AFTER, greedy=True),
    Measure(
        "distinct",
        "distinct texts|share, last",
        lambda arm: [len(texts) / texts.total() for texts in (one.sampled[-1].texts for one in arm.reads)],
    ),
    Measure("alarms", "alarms", lambda arm: sum(len(one.run.alarms) for one in arm.reads), form="d"),
)


def _by_judging(of: Callable[[Judging], str]) -> Callable[[ArmRuns], str]:
    return lambda arm: "; ".join(dict.fromkeys(of(one.judging) for one in arm.reads if one.judging))


_JUDGED = (
    Measure("judge", "judge", _by_judging(lambda one: one.judge)),
    Measure("cost", "judging", _by_judging(cost_words)),
    Measure("failed", "without verdicts", _by_judging(failed_words)),
)


def _gaps(results: Results, metric: PerItem, label: str = "") -> list[Gap]:
    ends = {name: end for name, arm in results.arms.items() if (end := _end(metric, arm)) is not None}
    arms = [(results.arms[name], end) for name, end in ends.items()]
    return [
        gap
        for place, (arm, end) in enumerate(arms)
        for other, before in arms[:place]
        if _judge_of(other) == _judge_of(arm)
        for gap in Gap.of(f"{label}{arm.arm.label}", other.arm.label, (before, end), results.draws.tables)
    ]


def _end(metric: PerItem, arm: ArmRuns) -> MeanRuns | None:
    has = all(metric.metric in one.sampled[-1].rewards for one in arm.reads)
    return arm.per_item(metric) if has else None


def _metrics_compared(metrics: Sequence[PerItem]) -> Listing:
    def rows(results: Results) -> list[list[Shown]]:
        found = corrected([gap for one in metrics for gap in _gaps(results, one, f"{one.label}: ")])
        return [gap.row_with_ratio(results.draws.tables) for gap in found]

    return Listing(
        "Terms and metrics against each other", f"Arms, each against those before it. {HOW}", MORE_HEADS, rows
    )


def _figures(arms: Sequence[ArmRuns], figures: Mapping[str, str]) -> Listing:
    def last(read: TaskRunRecords) -> list[float | None]:
        return [read.run.metrics.get(read.run.last_step or 0, {}).get(key) for key in figures.values()]

    def rows(_: Results) -> list[list[Shown]]:
        found: list[list[Shown]] = []
        for arm in arms:
            values = [last(one) for one in arm.reads]
            found.append([f"{arm.arm.label}|mean over runs", *map(over_all, zip(*values, strict=True))])
            for one, some in zip(arm.reads, values, strict=True):
                found.append([one.run.folder.name, *(None if value is None else Figure(value) for value in some)])
        return found

    caption = "Figures of the last evaluations, with 95 % intervals over runs."
    columns = [Column(head=label, missing="none to count") for label in figures]
    return Listing("Figures", caption, columns, rows)


def _against(results: Results) -> list[list[Shown]]:
    found, draws = _gaps(results, REWARD), results.draws.tables
    for name in dict.fromkeys(one.name for arm in results.arms.values() for one in arm.reads[0].task.baselines):
        for arm in results.arms.values():
            if (known := arm.baseline(name)) is not None:
                found += Gap.of(arm.arm.label, f"the baseline {name}", (known, arm.per_item(REWARD)), draws)
    return [one.row for one in corrected(found)]


def _ends(metrics: Sequence[PerItem], results: Results) -> tuple[list[str], list[Panel]]:
    panels: list[Panel] = []
    for one in (item_score(results.study.score), *metrics):
        ends = [_end(one, arm) for arm in results.arms.values()]
        after = tuple(None if end is None else estimated(end, results.draws) for end in ends)
        panels.append(Panel(title=one.label, before=(), after=after))
    return list(results.reported), panels


def _with_baselines(record: StudyRecord, results: Results) -> StudyRecord:
    """Return values in which every baseline is a level line of the picture."""
    if not record.curves:
        return record
    curve, first = record.curves[0], next(iter(results.arms.values()))
    steps = [step for _, places, _ in curve.lines for step in places]
    ends = tuple(sorted({min(steps), max(steps)}))
    known = {one.name: first.baseline(one.name) for one in first.reads[0].task.baselines}
    levels = ((f"baseline {k}", ends, (Figure(v.mean()),) * len(ends)) for k, v in known.items() if v is not None)
    return replace(record, curves=(replace(curve, lines=(*curve.lines, *levels)), *record.curves[1:]))


def _differing(arms: Sequence[ArmRuns]) -> list[str]:
    settings = [_settings_of(one.reads[0]) for one in arms]
    keys = dict.fromkeys(key for one in settings for key in one)
    return [key for key in keys if len({shown(one.get(key)) for one in settings}) > 1]


def _settings(arms: Sequence[ArmRuns]) -> list[list[Shown]]:
    settings = [_settings_of(one.reads[0]) for one in arms]
    return [[key, *(shown(one[key]) if key in one else "" for one in settings)] for key in _differing(arms)]


_SCORES = ("score|first", "score|last", apart("gain"), "score|last, greedy")
_RUNS = ("Arm", "seed", *_SCORES, "alarms", "Status", "Identity")


def _runs(results: Results) -> list[list[Shown]]:
    rows: list[list[Shown]] = []
    for arm in results.arms.values():
        for read in arm.reads:
            run = read.run
            ends = [MeanRuns.of("", [exam.by_item()], read.units) for exam in (read.sampled[0], read.sampled[-1])]
            gain = mean_difference(ends[1], ends[0], results.draws.tables, paired=True)
            greedy = [MeanRuns.of("", [exam.by_item()], read.units) for exam in read.greedy[-1:]]
            first, last, *greedily = (estimated(one, results.draws) for one in (*ends, *greedy))
            scores = (first, last, from_estimate(gain) if len(read.sampled) > 1 else None, *(greedily or [None]))
            seed = "unknown" if run.config.seed is None else str(run.config.seed)
            status, identity = f"{status_words(run)}, {steps_words(run)}", run.config.identity_sha256[:16]
            rows.append([run.folder.name, arm.arm.label, seed, *scores, str(len(run.alarms)), status, identity])
    return rows


def _notes(arms: Sequence[ArmRuns]) -> list[str]:
    reads = [one for arm in arms for one in arm.reads]
    alarms = sum(len(one.run.alarms) for one in reads)
    remarks = [f"{counted(alarms, 'alarm')} raised." if alarms else "No run raised an alarm."]
    lost = dict.fromkeys(f"{one.name}: {one.failure}" for read in reads for one in read.task.baselines if one.failure)
    remarks += [f"The score of a baseline is not known: {one}." for one in lost]
    if arms[0].seeds_draw_items:
        remarks.append("Each seed holds out other items: a seed's mean is one value, and intervals are over seeds.")
    if not all(one.held_out for one in reads):
        remarks.append("None of this is about items that were not trained on: none were held out.")
    if len({shown(one.run.manifest.identity.get("own_keys")) for one in reads if one.run.manifest}) > 1:
        remarks.append("Task keys differ: if they change the reward itself, rewards cannot be compared.")
    if len({one.sampled[-1].step for one in reads}) > 1:
        remarks.append("The last evaluations of these runs are at different steps.")
    return remarks


def _page(comparison: RunsCompared) -> Document:
    arms = comparison.results.arms.values()
    reads = [one for arm in arms for one in arm.reads]
    facts = (
        ("Arms", str(len(arms))),
        ("Runs", str(len(reads))),
        ("Models", listed(sorted({one.run.model for one in reads}))),
        ("Reward", reads[0].run.config.reward_name or "not stated"),
        ("Evaluated", f"{counted(len(reads[0].task.items), 'item')} a run"),
    )
    return page_of_runs(comparison, "Comparison of runs on one task", facts)


def _console(found: RunsCompared) -> ConsoleTable:
    record, arms = found.record, found.results.arms
    first = next(iter(arms))
    rows: list[tuple[str, ...]] = []
    for name, arm in arms.items():
        figures = [record.figures[name][key] for key in ("sampled 0", "sampled -1", "greedy -1")]
        gap = None if name == first else found.results.gap(name, first, REWARD)
        behind = "" if gap is None else f"{signed(gap.value)} {gap.between}".rstrip()
        means = (f"{one.value:.3f}" if isinstance(one, Figure) else "missing" for one in figures)
        rows.append((arm.arm.label, str(len(arm.reads)), *means, behind))
    baselines = [
        (one.name, "", "", "failed" if known is None else f"{known.mean():.3f}", "", "")
        for one in arms[first].reads[0].task.baselines
        for known in [arms[first].baseline(one.name)]
    ]
    title = f"Mean {record.score} on the evaluated items, sampled, seeds together"
    return console_table(title, ("seeds", "first", "last", "greedy", "minus the first arm"), rows, baselines)
