"""Runs on one task beside each other: seeds of an arm together, arms and baselines paired over held-out items."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tinsmith.lab.results.arms import seedless
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Config, Run
from tinsmith.lab.user_task.pages.gains import Gain, corrected, paired
from tinsmith.lab.user_task.records import Examination, TaskRunRecords, read_task_run
from tinsmith.pages.tables import shown
from tinsmith.stats.paired_means import PairedMeans
from tinsmith.types.errors import ConfigError

ByItem = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskArm:
    """Runs that were asked for alike but for the seed; a seed again says nothing new and is left out."""

    name: str
    """Unique among them: what was changed."""
    reads: tuple[TaskRunRecords, ...]

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Of its runs, ascending."""
        return tuple(one.run.config.seed for one in self.reads)

    def first(self, *, greedy: bool = False, name: str = "total") -> ByItem:
        """Return what items earned at the first evaluation, a mean over seeds."""
        return _pooled([exams[0].by_item(name) for one in self.reads if (exams := _of(one, greedy))])

    def last(self, *, greedy: bool = False, name: str = "total") -> ByItem:
        """Return the same of the last evaluation."""
        return _pooled([exams[-1].by_item(name) for one in self.reads if (exams := _of(one, greedy))])

    def baseline(self, name: str) -> ByItem:
        """Return what a baseline earns by item, as its runs measured it."""
        return _pooled([each.exact() for one in self.reads for each in one.task.baselines if each.name == name])


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksCompared:
    """All that the page and the terminal show."""

    arms: tuple[TaskArm, ...]
    gains: tuple[Gain, ...]
    """Each arm against the first one, then each against each baseline, corrected together."""
    notes: tuple[str, ...]

    @property
    def baselines(self) -> tuple[str, ...]:
        """Their names, in the task's order."""
        return tuple(dict.fromkeys(one.name for arm in self.arms for r in arm.reads for one in r.task.baselines))


def compare_tasks(folders: Sequence[Path]) -> TasksCompared:
    """Read runs on one task and compare them.

    Raises:
        DataError: a folder holds no run.
        ConfigError: they are not on the same task, or were not evaluated on the same items.
    """
    reads = [read_task_run(read_run(folder)) for folder in folders]
    _require_same_task([one.run for one in reads])
    arms = _arms([one for one in reads if one.sampled])
    missing = [f"{one.run.folder}: it was never evaluated." for one in reads if not one.sampled]
    if not arms:
        raise ConfigError(
            "none of these runs was evaluated",
            field="DIR",
            value=[str(folder) for folder in folders],
            allowed="runs with eval_every above 0",
        )
    _require_same_items(arms)
    compared = TasksCompared(arms=arms, gains=(), notes=())
    found: list[tuple[str, str, PairedMeans | None]] = [
        (arm.name, arms[0].name, paired(arms[0].last(), arm.last())) for arm in arms[1:]
    ]
    found += [
        (arm.name, f"the baseline {name}", paired(arm.baseline(name), arm.last()))
        for name in compared.baselines
        for arm in arms
    ]
    notes = (*missing, *(f"{one.run.folder.name}: {note}" for one in reads for note in one.notes))
    return TasksCompared(arms=arms, gains=corrected(found), notes=notes)


def _of(read: TaskRunRecords, greedy: bool) -> Sequence[Examination]:
    return read.greedy if greedy else read.sampled


def _pooled(found: Sequence[ByItem]) -> ByItem:
    """Return each item's mean over the runs that have it."""
    values: dict[str, list[Fraction]] = {}
    for by_item in found:
        for item, value in by_item.items():
            values.setdefault(item, []).append(value)
    return {item: sum(each, Fraction()) / len(each) for item, each in sorted(values.items())}


def _arms(reads: Sequence[TaskRunRecords]) -> tuple[TaskArm, ...]:
    groups: dict[str, dict[int | None, TaskRunRecords]] = {}
    for one in reads:
        config = one.run.config
        asked = (seedless(config.overrides), seedless(config.settings), config.model_name)
        groups.setdefault(json.dumps(asked, sort_keys=True), {}).setdefault(config.seed, one)
    found = [tuple(group[seed] for seed in sorted(group, key=lambda each: each or 0)) for group in groups.values()]
    names = _names([group[0].run.config for group in found])
    return tuple(
        TaskArm(name=name if names.count(name) == 1 else f"{name} [{place}]", reads=group)
        for place, (name, group) in enumerate(zip(names, found, strict=True), start=1)
    )


def _names(configs: Sequence[Config]) -> list[str]:
    """Return what was changed of each that is not the same for all, or the experiment where nothing was."""
    changed = [
        {key: shown(value) for key, value in {**seedless(one.overrides), "model": one.model_name}.items()}
        for one in configs
    ]
    return [
        ", ".join(f"{key}={value}" for key, value in own.items() if any(other.get(key) != value for other in changed))
        or config.title
        for config, own in zip(configs, changed, strict=True)
    ]


def _require_same_task(runs: Sequence[Run]) -> None:
    """Check that runs are on one task, by its name and by its code."""
    first = runs[0]
    for other in runs[1:]:
        if other.config.task.name != first.config.task.name:
            raise _refused("the task", first, other, first.config.task.name, other.config.task.name)
        then, now = _code(first), _code(other)
        for name in sorted({*then, *now}):
            if then.get(name) != now.get(name):
                raise _refused(f"code.{name}", first, other, then.get(name), now.get(name))


def _code(run: Run) -> Mapping[str, object]:
    code = {} if run.manifest is None else run.manifest.identity.get("code")
    return code if isinstance(code, dict) else {}


def _require_same_items(arms: Sequence[TaskArm]) -> None:
    """Check that arms answered the same items: all runs, or run for run of the same seed."""
    first = arms[0]
    everywhere = {_items(one) for arm in arms for one in arm.reads}
    if len(everywhere) == 1:
        return
    by_seed = {one.run.config.seed: one for one in first.reads}
    for arm in arms[1:]:
        for one in arm.reads:
            other = by_seed.get(one.run.config.seed, first.reads[0])
            if _items(other) != _items(one):
                shared = len(_items(other) & _items(one))
                raise _refused(
                    "held-out items",
                    other.run,
                    one.run,
                    f"{len(_items(other))} items",
                    f"{len(_items(one))} items, of which {shared} are the same",
                )
        if arm.seeds != first.seeds:
            raise _refused(
                "held-out items (the seed draws them)",
                first.reads[0].run,
                arm.reads[0].run,
                f"seeds {list(first.seeds)}",
                f"seeds {list(arm.seeds)}",
            )


def _items(read: TaskRunRecords) -> frozenset[tuple[str, str]]:
    return frozenset((one.id, one.prompt) for one in read.task.items)


def _refused(what: str, first: Run, other: Run, then: object, now: object) -> ConfigError:
    return ConfigError(
        f"{first.folder} and {other.folder} cannot be compared: they differ in {what}",
        field=what,
        value=now,
        allowed=str(then),
        fix="compare runs of one file, with the same eval_items and seeds, or name what is held out in the task",
    )
