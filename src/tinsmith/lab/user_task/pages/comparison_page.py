"""The page of several runs on one task, its sentences, and the same table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

from rich.table import Table as ConsoleTable

from tinsmith.lab.page.compared import Comparison
from tinsmith.lab.results.drawn_metrics import NO_EXAMINATION, Drawn, chart_plate
from tinsmith.lab.results.run_map import status_words, steps_words
from tinsmith.lab.user_task.pages.comparison import TaskArm, TasksCompared, compare_tasks
from tinsmith.lab.user_task.pages.gains import Gain, gain_words, gains_table, mean_of, paired
from tinsmith.lab.user_task.pages.page import level
from tinsmith.pages.console import console_table
from tinsmith.pages.curves import Line
from tinsmith.pages.document import Block, Document, Plate, Plates, Section, Size, drawn, kept, missing, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import Mark, series_mark
from tinsmith.pages.tables import (
    Cell,
    Table,
    absent,
    measured,
    number,
    plain,
    shown,
    signed_cell,
    table_of,
    text,
    whole,
)
from tinsmith.pages.wording import counted, listed, signed

ByItem = Mapping[str, Fraction]


def compared_tasks(folders: Sequence[Path]) -> Comparison:
    """Compare runs on one task; see SubjectEntry.

    Raises:
        DataError: a folder holds no run.
        ConfigError: they cannot be compared.
    """
    found = compare_tasks(folders)
    story = _story(found)
    return Comparison(_document(found, story), _console(found), (*story, *found.notes))


def _document(found: TasksCompared, story: Sequence[str]) -> Document:
    arms, config = found.arms, found.arms[0].reads[0].run.config
    runs = sum(len(arm.reads) for arm in arms)
    models = sorted({one.run.config.model_name for arm in arms for one in arm.reads})
    gains = gains_table(found.gains, "Arm", "all are")
    return Document(
        kind="Comparison of runs on one task",
        title=f"{config.task.name}: {counted(runs, 'run')} compared",
        question=config.question,
        facts=(
            ("Arms", str(len(arms))),
            ("Runs", str(runs)),
            ("Models", listed(models)),
            ("Reward", config.reward_name or "not stated"),
            ("Evaluated", f"{counted(len(arms[0].reads[0].task.items), 'item')} a run"),
        ),
        sections=(
            summary(story, Plates([_over_steps(found)], Size.HALF), limits=_limits(found), notes=found.notes),
            Section("arms", "Arms", kept(_dots(found), _arms(found))),
            Section("gains", "Against each other", [gains or missing("One arm, no baseline.")]),
            Section("settings", "What differs", [_settings(found)]),
            Section("runs", "Runs", [_runs(found)]),
        ),
    )


def _story(found: TasksCompared) -> tuple[str, ...]:
    """Return the sentences; the first ones are the answer."""
    arms = found.arms
    told = [_against(one) for one in found.gains]
    told += [_alone(arm) for arm in arms]
    alarms = sum(len(one.run.alarms) for arm in arms for one in arm.reads)
    told.append(f"{counted(alarms, 'alarm')} raised." if alarms else "No run raised an alarm.")
    return tuple(told)


def _against(one: Gain) -> str:
    where = "above" if one.found.gain > 0 else "below" if one.found.gain < 0 else "equal to"
    claim = "" if one.holds else ": too little to tell from chance, nothing is claimed"
    return (
        f"{one.name} is {where} {one.over}, {one.found.second:.3f} to {one.found.first:.3f} on "
        f"{counted(one.found.n, 'item')}: {gain_words(one)}{claim}."
    )


def _alone(arm: TaskArm) -> str:
    gains = [
        float(last - first)
        for one in arm.reads
        if len(one.sampled) > 1
        for first, last in [(_mean(one.sampled[0].by_item()), _mean(one.sampled[-1].by_item()))]
    ]
    if not gains:
        return f"{arm.name}: no gain can be told, as it takes two evaluations."
    first, last = _mean(arm.first()), _mean(arm.last())
    told = f"{arm.name} went from {float(first):.3f} to {float(last):.3f} while it was trained"
    if len(gains) == 1:
        return f"{told}."
    spread = f"from {signed(min(gains))} to {signed(max(gains))}"
    return f"{told}, a mean over {len(gains)} seeds whose gains go {spread}."


def _mean(by_item: ByItem) -> Fraction:
    return sum(by_item.values(), Fraction()) / max(1, len(by_item))


def _limits(found: TasksCompared) -> tuple[str, ...]:
    reads = [one for arm in found.arms for one in arm.reads]
    told = [
        "That a difference is one between recipes: intervals are over items, and another seed may give another one."
    ]
    if not all(one.held_out for one in reads):
        told.append("Anything about items that were not trained on: none were held out.")
    own = {shown(one.run.manifest.identity.get("own_keys")) for one in reads if one.run.manifest}
    if len(own) > 1:
        told.append(
            "What a value of the task's own keys is worth where it changes the reward itself: figures of two rewards "
            "are not of one thing."
        )
    if len({one.sampled[-1].step for one in reads}) > 1:
        told.append("What equal training gives: the runs were last evaluated at different steps.")
    return tuple(told)


def _console(found: TasksCompared) -> ConsoleTable:
    first = found.arms[0].name
    over = {one.name: one for one in found.gains if one.over == first}
    return console_table(
        "Mean reward on the evaluated items, sampled, seeds together",
        ("seeds", "first", "last", "greedy", "minus the first arm"),
        [
            (
                arm.name,
                str(len(arm.reads)),
                f"{float(_mean(arm.first())):.3f}",
                f"{float(_mean(arm.last())):.3f}",
                f"{float(_mean(greedy)):.3f}" if (greedy := arm.last(greedy=True)) else "missing",
                _difference(over.get(arm.name)),
            )
            for arm in found.arms
        ],
        [
            (name, "", "", f"{float(_mean(earned)):.3f}" if earned else "failed", "", "")
            for name in found.baselines
            for earned in [found.arms[0].baseline(name)]
        ],
    )


def _difference(one: Gain | None) -> str:
    if one is None:
        return ""
    interval = one.found.interval
    return signed(one.found.gain) + ("" if interval is None else f" {signed(interval.low)} to {signed(interval.high)}")


def _over_steps(found: TasksCompared) -> Plate:
    """The one picture: every arm's mean reward over the steps, with a band from the smallest seed to the largest."""
    figure = Drawn(
        name="reward",
        title="Mean reward",
        note="Evaluated items, sampled; bands go from the smallest seed to the largest.",
        missing=NO_EXAMINATION,
        unit="reward",
    )
    lines = [_line(arm, series_mark(at)) for at, arm in enumerate(found.arms)]
    steps = [step for one in lines for step in one.steps]
    for name in found.baselines:
        if earned := found.arms[0].baseline(name):
            lines.append(level(name, float(_mean(earned)), steps, len(lines)))
    return chart_plate(figure, lines)


def _line(arm: TaskArm, mark: Mark) -> Line:
    by_step: dict[int, list[float]] = {}
    for one in arm.reads:
        for exam in one.sampled:
            by_step.setdefault(exam.step, []).append(float(_mean(exam.by_item())))
    # A step that some seed has not reached would make the mean jump.
    steps = [step for step in sorted(by_step) if len(by_step[step]) == len(arm.reads)]
    band = len(arm.reads) > 1
    return Line(
        label=arm.name,
        mark=mark,
        steps=steps,
        values=[sum(by_step[step]) / len(by_step[step]) for step in steps],
        low=[min(by_step[step]) for step in steps] if band else None,
        high=[max(by_step[step]) for step in steps] if band else None,
    )


def _measure(by_item: ByItem) -> Measure | None:
    return mean_of(by_item) if by_item else None


def _dots(found: TasksCompared) -> Block:
    rows = [*((arm.name, arm.first(), arm.last()) for arm in found.arms)]
    rows += [(name, {}, found.arms[0].baseline(name)) for name in found.baselines]
    measures = [_measure(each) for _, *both in rows for each in both]
    ends = [end for one in measures if one for end in (one.value, one.low, one.high) if end is not None]
    panel = Panel(
        title="Mean reward, sampled, 95 % intervals over items",
        dots=[
            Dots("before training", series_mark(6), [_measure(first) for _, first, _ in rows]),
            Dots("at the end", series_mark(0), [_measure(last) for *_, last in rows]),
        ],
        high=max(ends, default=0.0) or 1.0,
        low=min(0.0, *ends, 0.0),
    )
    told = "; ".join(f"{name} {float(_mean(last)):.3f}" for name, _, last in rows)
    svg = dots_svg("arms", f"Mean reward. {told}.", [name for name, *_ in rows], [panel], width=7.2)
    return drawn(svg, NO_EXAMINATION)


def _arms(found: TasksCompared) -> Table:
    task = found.arms[0].reads[0].task
    terms = task.terms if len(task.terms) > 1 else ()
    return table_of(
        "Means over items, seeds together, each above its 95 % interval over items.",
        found.arms,
        ("Arm", lambda arm: text(arm.name, f"seeds {listed([str(one) for one in arm.seeds])}")),
        ("first|sampled", lambda arm: measured(_measure(arm.first()))),
        ("last|sampled", lambda arm: measured(_measure(arm.last()))),
        ("gain|95 % interval", _gained),
        *((f"{name}|last, sampled", partial(_term, name)) for name in terms),
        ("last|greedy", lambda arm: measured(_measure(arm.last(greedy=True)))),
        ("distinct texts|share, last", _distinct),
        ("alarms", lambda arm: whole(sum(len(one.run.alarms) for one in arm.reads))),
    )


def _gained(arm: TaskArm) -> Cell:
    if any(len(one.sampled) < 2 for one in arm.reads):
        return absent()
    found = paired(arm.first(), arm.last())
    return absent() if found is None else signed_cell(found.gain, found.interval)


def _term(name: str, arm: TaskArm) -> Cell:
    return measured(_measure(arm.last(name=name)))


def _distinct(arm: TaskArm) -> Cell:
    shares = [len(one.sampled[-1].texts) / one.sampled[-1].texts.total() for one in arm.reads]
    return number(sum(shares) / len(shares))


def _settings(found: TasksCompared) -> Table:
    """Return the settings and own keys in which arms differ."""
    asked = [
        {**one.run.config.settings, **one.run.config.overrides, "model": one.run.config.model_name}
        for arm in found.arms
        for one in arm.reads[:1]
    ]
    keys = [
        key
        for key in dict.fromkeys(key for one in asked for key in one)
        if key != "seed" and len({shown(one.get(key)) for one in asked}) > 1
    ]
    rows = [(key, *(shown(one[key]) if key in one else "" for one in asked)) for key in keys]
    heads = ("Key", *(arm.name for arm in found.arms))
    return plain("" if rows else "The arms were asked for alike.", heads, rows, words=True)


def _runs(found: TasksCompared) -> Table:
    reads = [(arm, one) for arm in found.arms for one in arm.reads]
    return table_of(
        "",
        reads,
        ("Run", lambda row: text(row[1].run.folder.name)),
        (text("Arm"), lambda row: text(row[0].name)),
        ("seed", lambda row: whole(row[1].run.config.seed)),
        ("first|sampled", lambda row: measured(mean_of(row[1].sampled[0].by_item()))),
        ("last|sampled", lambda row: measured(mean_of(row[1].sampled[-1].by_item()))),
        (text("Status"), lambda row: text(status_words(row[1].run), steps_words(row[1].run))),
        (text("Identity"), lambda row: text(row[1].run.config.identity_sha256[:16])),
    )
