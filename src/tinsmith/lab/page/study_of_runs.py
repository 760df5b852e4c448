"""Runs beside each other: a study that nobody declared, whose arms are the runs that differ by the seed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.table import Table as ConsoleTable

from tinsmith.lab.page.comparison import Comparison, arms_on_one_task, judge_of, settings_of
from tinsmith.lab.page.examples import cost_words, failed_words
from tinsmith.lab.page.gaps import HEADS, HOW, MORE_HEADS, Pair, gaps, row_with_ratio
from tinsmith.lab.results.run_details import status_words, steps_words
from tinsmith.lab.runs.reader import Judging, TaskRunRecords
from tinsmith.lab.study.conduct import recorded
from tinsmith.lab.study.measures import AFTER, BEFORE, ArmRuns, Results, estimated, item_score, measure_study
from tinsmith.lab.study.record import DRAWS, Column, CurveRecord, Draws, Panel, Shown, StudyRecord, apart, seconds_in
from tinsmith.lab.study.report import page_of_study, sentences
from tinsmith.lab.study.study import Beats, Curve, Listing, Measure, PerItem, Points, Reading, Size, Study, Table
from tinsmith.pages.console import console_table
from tinsmith.pages.document import Document
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import counted, from_estimate, listed, over_all, signed
from tinsmith.pages.tables import shown
from tinsmith.stats.mean_runs import MeanRuns, mean_difference

REWARD = PerItem("reward", "reward")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsCompared:
    """Runs on one task, measured as a study is."""

    results: Results
    record: StudyRecord


def study_of_runs(folders: Sequence[Path], draws: Draws = DRAWS) -> RunsCompared:
    """Measure runs on one task beside each other; the first arm is the one that others are compared with."""
    arms, notes = arms_on_one_task(folders)
    results = measure_study(_study(arms, notes), arms, draws)
    found = list(arms.values())
    record = recorded(
        results,
        seeds=tuple(seed or 0 for seed in min(found, key=lambda one: len(one.seeds)).seeds),
        settings={key: value for key, value in settings_of(found[0]).items() if key not in _differing(found)},
    )
    return RunsCompared(results=results, record=_with_baselines(record, results))


def compared_tasks(folders: Sequence[Path]) -> Comparison:
    """Compare runs on one task."""
    found = study_of_runs(folders)
    return Comparison(_page(found), _console(found), sentences(found.record))


def _study(named: Mapping[str, ArmRuns], notes: Sequence[str]) -> Study:
    first = next(iter(named.values()))
    task, config = first.reads[0].task, first.reads[0].run.config
    of_all = set[str].intersection(*(set(one.sampled[-1].rewards) for arm in named.values() for one in arm.reads))
    several = all(len(one.sampled) > 1 for arm in named.values() for one in arm.reads)
    metrics = [PerItem(name, name, name) for name in first.reads[0].terms]
    metrics += [PerItem(name, name, f"metric/{name}") for name in task.metrics]
    apart = [
        one
        if several and one.metric in of_all
        else Measure(f"end {one.name}", f"{one.label}|after", partial(_end, one))
        for one in metrics
    ]
    figures = {label: key for arm in named.values() for label, key in arm.reads[0].task.figures.items()}
    one_judge = len({judge_of(arm) for arm in named.values()}) == 1
    runs = sum(len(arm.reads) for arm in named.values())
    measures = (*_ARM_MEASURES, *_JUDGED) if judge_of(first) else _ARM_MEASURES
    return Study(
        name=config.task.name,
        title=f"{config.task.name}: {counted(runs, 'run')} compared",
        question=config.question,
        task=None,
        arms=tuple(arm.arm for arm in named.values()),
        sizes={"found": Size()},
        score=replace(REWARD, label=first.reads[0].score),
        against="arm-0" if one_judge else "",
        claims=[Beats(name, "arm-0") for name, arm in list(named.items())[1:] if judge_of(arm) == judge_of(first)],
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
            *([_metrics_compared(metrics)] if metrics and len(named) > 1 else []),
            *([_figures(named, figures)] if figures else []),
            Listing(
                "What differs",
                "Settings and task keys that differ between arms.",
                [arm.arm.label for arm in named.values()],
                lambda _: _settings(list(named.values())),
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
        notes=(*_notes(list(named.values())), *notes),
    )


def _mean_of(metric: PerItem, at: int, *, greedy: bool = False) -> Measure:
    def read(arm: ArmRuns) -> Reading:
        step = arm.step(at)
        exams = [one.greedy if greedy else one.sampled for one in arm.reads]
        if not all(any(one.step == step for one in some) for some in exams):
            return None
        return arm.per_item(metric, at, greedy=greedy)

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


def _told(of: Callable[[Judging], str]) -> Callable[[ArmRuns], str]:
    return lambda arm: "; ".join(dict.fromkeys(of(one.judging) for one in arm.reads if one.judging))


_JUDGED = (
    Measure("judge", "judge", _told(lambda one: one.judge)),
    Measure("cost", "judging", _told(cost_words)),
    Measure("failed", "without verdicts", _told(failed_words)),
)


def _pairs(results: Results, metric: PerItem, label: str = "") -> list[Pair]:
    """Return every arm with those before it, in a metric that is named before the arm."""
    known = {name: _end(metric, arm) for name, arm in results.arms.items()}
    ends = {name: one for name, one in known.items() if one is not None}
    arms = [(name, results.arms[name]) for name in ends]
    return [
        Pair(name=f"{label}{arm.arm.label}", against=other.arm.label, first=ends[before], second=ends[name])
        for place, (name, arm) in enumerate(arms)
        for before, other in arms[:place]
        if judge_of(other) == judge_of(arm)
    ]


def _end(metric: PerItem, arm: ArmRuns) -> MeanRuns | None:
    """Return a metric at the last evaluation; None where a run has none."""
    has = all(metric.metric in one.sampled[-1].rewards for one in arm.reads)
    return arm.per_item(metric) if has else None


def _metrics_compared(metrics: Sequence[PerItem]) -> Listing:
    def rows(results: Results) -> list[list[Shown]]:
        draws = results.draws.tables
        found = [_pairs(results, one, f"{one.label}: ") for one in metrics]
        return [row_with_ratio(gap, draws) for gap in gaps([pair for some in found for pair in some], draws)]

    return Listing(
        "Terms and metrics against each other", f"Arms, each against those before it. {HOW}", MORE_HEADS, rows
    )


def _figures(named: Mapping[str, ArmRuns], figures: Mapping[str, str]) -> Listing:
    """Return figures of the last line of metrics: means over an arm's runs, and every run."""

    def last(read: TaskRunRecords) -> list[float | None]:
        return [read.run.metrics.get(read.run.last_step or 0, {}).get(key) for key in figures.values()]

    def rows(_: Results) -> list[list[Shown]]:
        found: list[list[Shown]] = []
        for arm in named.values():
            values = [last(one) for one in arm.reads]
            found.append([f"{arm.arm.label}|mean over runs", *map(over_all, zip(*values, strict=True))])
            for one, some in zip(arm.reads, values, strict=True):
                found.append([one.run.folder.name, *(None if value is None else Figure(value) for value in some)])
        return found

    caption = "Figures of the last evaluations, with 95 % intervals over runs."
    columns = [Column(head=label, missing="none to count") for label in figures]
    return Listing("Figures", caption, columns, rows)


def _against(results: Results) -> list[list[Shown]]:
    """Return a row for each comparison, corrected together by Holm."""
    arms = list(results.arms.items())
    ends = {name: arm.per_item(REWARD) for name, arm in arms}
    pairs = _pairs(results, REWARD)
    for one in dict.fromkeys(each.name for _, arm in arms for each in arm.reads[0].task.baselines):
        for name, arm in arms:
            known = arm.baseline(one)
            if known is not None:
                against = f"the baseline {one}"
                pairs.append(Pair(name=arm.arm.label, against=against, first=known, second=ends[name]))
    return [one.row for one in gaps(pairs, results.draws.tables)]


def _ends(metrics: Sequence[PerItem], results: Results) -> tuple[list[str], list[Panel]]:
    """Return the score and all metrics of arms that were evaluated once."""
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
    curve = record.curves[0]
    steps = [step for _, places, _ in curve.lines for step in places]
    first = next(iter(results.arms.values()))
    lines = list(curve.lines)
    for one in first.reads[0].task.baselines:
        known = first.baseline(one.name)
        if known is not None:
            ends = tuple(sorted({min(steps), max(steps)}))
            lines.append((f"baseline {one.name}", ends, (Figure(known.mean()),) * len(ends)))
    drawn: CurveRecord = replace(curve, lines=tuple(lines))
    return replace(record, curves=(drawn, *record.curves[1:]))


def _differing(arms: Sequence[ArmRuns]) -> list[str]:
    asked = [settings_of(one) for one in arms]
    keys = dict.fromkeys(key for one in asked for key in one)
    return [key for key in keys if len({shown(one.get(key)) for one in asked}) > 1]


def _settings(arms: Sequence[ArmRuns]) -> list[list[Shown]]:
    asked = [settings_of(one) for one in arms]
    return [[key, *(shown(one[key]) if key in one else "" for one in asked)] for key in _differing(arms)]


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
    """Return what a reader must know, and what could not be read."""
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


def _page(found: RunsCompared) -> Document:
    arms = found.results.arms.values()
    reads = [one for arm in arms for one in arm.reads]
    seconds = {arm.arm.label: seconds_in([one.run for one in arm.reads]) for arm in arms}
    facts = (
        ("Arms", str(len(arms))),
        ("Runs", str(len(reads))),
        ("Models", listed(sorted({one.run.config.model_name for one in reads}))),
        ("Reward", reads[0].run.config.reward_name or "not stated"),
        ("Evaluated", f"{counted(len(reads[0].task.items), 'item')} a run"),
    )
    return replace(page_of_study(found.record, seconds), kind="Comparison of runs on one task", facts=facts)


def _console(found: RunsCompared) -> ConsoleTable:
    record, arms = found.record, found.results.arms
    first = next(iter(arms))
    rows: list[tuple[str, ...]] = []
    for name, arm in arms.items():
        figures = [record.figures[name][key] for key in ("sampled 0", "sampled -1", "greedy -1")]
        gap = "" if name == first else _signed(found.results.gap(name, first, REWARD))
        means = (f"{one.value:.3f}" if isinstance(one, Figure) else "missing" for one in figures)
        rows.append((arm.arm.label, str(len(arm.reads)), *means, gap))
    baselines = [
        (one.name, "", "", "failed" if known is None else f"{known.mean():.3f}", "", "")
        for one in arms[first].reads[0].task.baselines
        for known in [arms[first].baseline(one.name)]
    ]
    title = f"Mean {record.score} on the evaluated items, sampled, seeds together"
    return console_table(title, ("seeds", "first", "last", "greedy", "minus the first arm"), rows, baselines)


def _signed(gap: Figure) -> str:
    ends = "" if gap.low is None or gap.high is None else f" {signed(gap.low)} to {signed(gap.high)}"
    return signed(gap.value) + ends
