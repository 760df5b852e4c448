"""Compares runs, whatever they are on, as their subject says; runs on one task by arm, where they can be compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from rich.table import Table

from tinsmith.lab.page.examples import with_best_text
from tinsmith.lab.page.run_page import Subjects
from tinsmith.lab.results.arms import seedless
from tinsmith.lab.runs.reader import TaskRunRecords, read_run, read_task_run
from tinsmith.lab.runs.records import Run, Split
from tinsmith.lab.study.measures import ArmRuns
from tinsmith.lab.study.study import Arm
from tinsmith.pages.document import Document
from tinsmith.pages.tables import shown
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sentences` say what happened, which claims hold, and what could not be read."""

    page: Document
    table: Table  # For a terminal.
    sentences: tuple[str, ...]


COMPARISON: Final = "compare.html"  # The page, where no other file is named.


def compare(folders: Sequence[Path], subjects: Subjects, task: str | None = None) -> Comparison:
    """Compare runs of one subject, or runs on papers.

    `task` is the label that is compared; runs on two labels take part with what they say of it.
    """
    if len({folder.resolve() for folder in folders}) != len(folders):
        what = "a run is compared with itself"
        raise ConfigError(what, field="DIR", value=[str(folder) for folder in folders], allowed="each folder once")
    found = [subjects[read_run(folder).config.kind] for folder in folders]
    for one in found:
        if one.alone is not None and any(other is not one for other in found):
            alike = [str(f) for f, other in zip(folders, found, strict=True) if other is one]
            raise ConfigError(one.alone, field="DIR", value=alike, allowed="runs of one kind")
    if found[0].alone is not None and task is not None:
        what = "--task does not apply here"
        raise ConfigError(what, field="--task", value=task, allowed="none: these runs have no labels to choose from")
    return found[0].compare(folders, task)


def arms_on_one_task(folders: Sequence[Path]) -> tuple[dict[str, ArmRuns], tuple[str, ...]]:
    """Read runs on one task: arms by name, and notes on runs that are left out and files that could not be read.

    Arms are runs that were asked for alike but for the seed; a seed again says nothing new and is left out. Their
    labels are keys that are not the same for all.
    """
    reads = [with_best_text(read_task_run(read_run(folder))) for folder in folders]
    _require_same_task([one.run for one in reads])
    tested = any(Split.TEST in one.tests for one in reads)
    reads = [one.at_test for one in reads]
    evaluated = [one for one in reads if one.sampled and (Split.TEST in one.tests or not tested)]
    arms = _arms(evaluated)
    if not arms:
        what, allowed = "none of these runs was evaluated", "runs with eval_every above 0"
        raise ConfigError(what, field="DIR", value=[str(folder) for folder in folders], allowed=allowed)
    known, counted = ({one.run.folder for one in some} for some in (evaluated, [r for arm in arms for r in arm.reads]))
    never = f"it was never {'tested' if tested else 'evaluated'}"
    left_out = [(one, never) for one in reads if one.run.folder not in known]
    left_out += [(one, "its seed is there already") for one in evaluated if one.run.folder not in counted]
    out = [f"{one.run.folder}: left out, as {why}." for one, why in left_out]
    notes = (*out, *(f"{one.run.folder.name}: {note}" for one in reads for note in one.notes))
    draw_items = _seeds_draw_items(evaluated, arms)
    return {one.arm.name: replace(one, seeds_draw_items=draw_items) for one in arms}, notes


def settings_of(arm: ArmRuns) -> dict[str, object]:
    """Return settings of an arm and the task's own keys, but for the seed."""
    config = arm.reads[0].run.config
    return {**seedless(config.settings), **seedless(config.overrides), **_given(arm.reads[0])}


def judge_of(arm: ArmRuns) -> str:
    """Return who judged; empty where nobody did."""
    judging = arm.reads[0].judging
    return "" if judging is None else judging.judge


def _arms(reads: Sequence[TaskRunRecords]) -> tuple[ArmRuns, ...]:
    groups: dict[str, dict[int | None, TaskRunRecords]] = {}
    for one in reads:
        config = one.run.config
        asked = (seedless(config.overrides), seedless(config.settings), _given(one))
        groups.setdefault(json.dumps(asked, sort_keys=True), {}).setdefault(config.seed, one)
    found = [tuple(group[seed] for seed in sorted(group, key=lambda each: each or 0)) for group in groups.values()]
    names = _names([group[0] for group in found])
    labels = [name if names.count(name) == 1 else f"{name} [{place}]" for place, name in enumerate(names, start=1)]
    both = enumerate(zip(labels, found, strict=True))
    return tuple(ArmRuns(Arm(f"arm-{place}", label), reads) for place, (label, reads) in both)


def _names(reads: Sequence[TaskRunRecords]) -> list[str]:
    """Return what was changed of each that is not the same for all, or the experiment where nothing was."""
    changed = [
        {key: shown(value) for key, value in {**seedless(one.run.config.overrides), **_given(one)}.items()}
        for one in reads
    ]
    return [
        ", ".join(f"{key}={value}" for key, value in own.items() if any(other.get(key) != value for other in changed))
        or read.run.config.title
        for read, own in zip(reads, changed, strict=True)
    ]


def _given(read: TaskRunRecords) -> dict[str, object]:
    judge = {} if read.judging is None else {"judge": read.judging.judge}
    own = None if read.run.manifest is None else read.run.manifest.identity.get("own_keys")
    keys = cast(dict[str, object], own) if isinstance(own, dict) else {}
    return {**keys, "model": read.run.config.model_name, **judge}


def _require_same_task(runs: Sequence[Run]) -> None:
    """Check that runs are on one task, by its name and by its code."""
    first = runs[0]
    for other in runs[1:]:
        if _task(other) != _task(first):
            raise _refused("the task", first, other, first.config.task.name, other.config.task.name)
        then, now = _code(first), _code(other)
        for name in sorted({*then, *now}):
            if then.get(name) != now.get(name):
                raise _refused(f"code.{name}", first, other, then.get(name), now.get(name))


def _task(run: Run) -> str:
    """Return a task's name without that of a preset, whose keys may differ as others do."""
    return run.config.task.name.partition("/")[0]


def _code(run: Run) -> Mapping[str, object]:
    code = {} if run.manifest is None else run.manifest.identity.get("code")
    return code if isinstance(code, dict) else {}


def _seeds_draw_items(reads: Sequence[TaskRunRecords], arms: Sequence[ArmRuns]) -> bool:
    """Check that runs answered the same items: all of them, or run for run of the same seed."""
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
    """Return the evaluated items, by name, prompt, and a judge's criteria."""
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
        fix="compare runs of one file, with the same eval_items and seeds, or name what is held out in the task",
    )
