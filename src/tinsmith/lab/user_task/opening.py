"""Opens a task from its source, with `key=value` changes: to a plan, or to what `--help` says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Experiment, KindEntry, Plan
from tinsmith.lab.experiment.key_help import KeyHelp, key_help, shown_value
from tinsmith.lab.experiment.key_text import unknown_key
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.interleave import NONE
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import CommonSettings, SparseSettings, Watched
from tinsmith.lab.user_task.entry import JUDGED_TASK, USER_TASK, OpenedTask
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.kinds import JUDGED_KINDS, TASK_KINDS, TESTED_KINDS
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import ConfigError

_NOT_IN_FILE: Final = frozenset({"at"})
_EVERY_KEY: Final = frozenset(
    name for kinds in (TESTED_KINDS, JUDGED_KINDS) for each in kinds.values() for name in each.keys.known
)
_QUESTION: Final = "What does the model learn of this task?"


def open_task(source: TaskSource, overrides: Mapping[str, str]) -> Plan:
    """Return the plan of a source's task, with `key=value` changes as they stand on a command line."""
    own = {key.name for key in source.keys}
    for key in overrides:
        if key not in _EVERY_KEY | own:
            raise unknown_key(key, overrides[key], _EVERY_KEY | own)
    experiment, values, task = _experiment(source, overrides)
    plan = make_plan(experiment, {key: overrides[key] for key in overrides if key not in own})
    shown = plan.settings.by_example(0)
    if task.answer is None and shown is not None and not isinstance(shown, SparseSettings):
        raise ConfigError(
            "supervised training reads right answers, and this task says none",
            field="kind" if plan.frame.kind is Kind.TASK_SFT else "sft_steps",
            value=overrides.get("sft_steps", plan.frame.kind.value),
            fix="give the task answer=..., a function of the item, or train it by reward alone",
        )
    if task.options is None and getattr(plan.settings, "force_options", False):
        raise ConfigError(
            "this task does not say which answers there are",
            field="force_options",
            value=True,
            fix="give the task options=..., a function of the item",
        )
    if task.aside is None and getattr(plan.settings, "interleave", NONE) != NONE:
        raise ConfigError(
            "this task sets no items aside that batches could be made of",
            field="interleave",
            value=overrides.get("interleave"),
            fix="give the task aside=..., a function of the item",
        )
    _require_probed(task, plan.settings)
    files = {key.name for key in source.keys if key.is_file}
    changed = {key: values[key] for key in sorted((own - files) & overrides.keys())}
    return replace(plan, overrides=MappingProxyType({**changed, **plan.overrides}))


def _require_probed(task: Task, settings: CommonSettings) -> None:
    penalty = getattr(settings, "confidence_penalty", 0.0)
    watched = settings.watch is Watched.CONFIDENCE
    if (penalty or watched) and (task.probed is None or task.talk is not None):
        raise ConfigError(
            "this task does not say where reasoning ends and which answers there are, or has several turns",
            field="watch" if watched else "confidence_penalty",
            value=settings.watch.value if watched else penalty,
            fix="give the task probed=Probed(before_answer=..., options=..., gold=...)",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHelp:
    """What `--help` says of a task."""

    name: str
    question: str
    keys: tuple[KeyHelp, ...]
    """The source's own ones first."""


def task_help(source: TaskSource, overrides: Mapping[str, str]) -> TaskHelp:
    """Return the keys of a source's task; its own ones as they stand on a command line."""
    experiment, values, _ = _experiment(source, overrides)
    shared = key_help(experiment)
    mine = [
        KeyHelp(
            name=key.name,
            values=dict.fromkeys(shared[0].values, shown_value(values[key.name])),
            words=key.words or "A key of this file.",
            circumstance=False,
        )
        for key in source.keys
    ]
    return TaskHelp(name=experiment.name, question=experiment.question, keys=(*mine, *shared))


def _experiment(source: TaskSource, overrides: Mapping[str, str]) -> tuple[Experiment, dict[str, Value], Task]:
    """Return the experiment that a task is, the values of its source's own keys, and the task."""
    values = {key.name: key.read(overrides.get(key.name)) for key in source.keys}
    clash = next((name for name in values if name in _EVERY_KEY), None)
    if clash is not None:
        raise source.told(
            ConfigError("every run has a key of this name", field=clash, fix="give the argument of task() another name")
        )
    task = source.make(values)
    name = task.name or source.title
    kinds = kinds_of(task)
    opened = OpenedTask(source=source, task=task, name=name, own_keys=values)
    experiment = Experiment(
        name=name,
        question=task.question or _QUESTION,
        subject=replace(JUDGED_TASK if kinds is JUDGED_KINDS else USER_TASK, kinds=kinds, opened=opened),
        parent=None,
        delta={"kind": next(iter(kinds)).value, **_settings(source, kinds, _shared(task))},
        at_nano=_settings(source, kinds, _sized(task, At.NANO)),
        at_small=_settings(source, kinds, _sized(task, At.SMALL)),
        at_seed=_settings(source, kinds, _sized(task, At.SEED)),
    )
    return experiment, values, task


def kinds_of(task: Task) -> Mapping[Kind, KindEntry]:
    """Return the ways to train on a task."""
    if isinstance(task.reward, JudgedReward):
        return JUDGED_KINDS
    return TESTED_KINDS if task.tested else TASK_KINDS


def _shared(task: Task) -> dict[str, Value]:
    return {key: value for key, value in task.keys.items() if not isinstance(value, Mapping)}


def _sized(task: Task, at: At) -> Mapping[str, Value]:
    found = task.keys.get(at.value, {})
    return found if isinstance(found, Mapping) else {}


def _settings(source: TaskSource, kinds: Mapping[Kind, KindEntry], given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values that a task gives to keys of every run."""
    circumstances = next(iter(kinds.values())).keys.circumstances - {"model_name"}
    types = {key: kind for each in kinds.values() for key, kind in each.keys.kinds.items()}
    allowed = frozenset(types) - circumstances - _NOT_IN_FILE
    for key in given:
        if key not in allowed:
            raise source.told(unknown_key(key, str(given[key]), allowed))
    return {key: value if types[key] is type(value) else shown_value(value) for key, value in given.items()}
