"""Runs a task of the user's own: from its file with `key=value` changes, or handed over in Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tinsmith.lab.experiment.conduct import Conducted, conduct
from tinsmith.lab.experiment.estimate import model_minutes, time_and_disk
from tinsmith.lab.experiment.experiment import Experiment, Plan
from tinsmith.lab.experiment.fingerprints import plan_fingerprint
from tinsmith.lab.experiment.key_help import KeyHelp, key_help, shown_value
from tinsmith.lab.experiment.key_text import truth, unknown_key, unreadable
from tinsmith.lab.experiment.materials import with_model
from tinsmith.lab.experiment.model_pace import Lengths
from tinsmith.lab.experiment.own_rates import require_own_rates
from tinsmith.lab.experiment.plan import make_plan, with_default_log_path
from tinsmith.lab.experiment.refusals import require_possible
from tinsmith.lab.page.run_page import report_run
from tinsmith.lab.progress import Told
from tinsmith.lab.runs.files import METRICS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.user_task.entry import USER_TASK
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.kinds import TASK_KINDS
from tinsmith.lab.user_task.loading import OwnKey, TaskFile, load_file
from tinsmith.lab.user_task.matter import TaskMatter, code_sha256
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import ConfigError, TinsmithError

_KEYS: Final = TASK_KINDS[Kind.TASK].keys
_NOT_IN_FILE: Final = frozenset({"kind", "at"})
_CHARACTERS_PER_TOKEN: Final = 4.0
_QUESTION: Final = "What does the model learn of this task?"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """What a run on a task left behind."""

    folder: Path
    report: Path | None
    """The page; None where the run was told to stop before its end."""
    metrics: Mapping[str, float]
    """The last line of `metrics.jsonl`: `eval/reward/total` and so on, by name."""
    alarms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTask:
    """A task with nothing left open but the model."""

    plan: Plan
    matter: TaskMatter


def run(task: Task | str | Path, **changes: object) -> TaskRun:
    """Train on a task of your own, as `tinsmith run my_task.py key=value ...` does, and leave its folder.

    Args:
        task: a `Task`, or the path of a file with one.
        changes: keys and their values: `steps=20, log_path="runs/mine", model_name="tinsmith/smollm2"`.

    Raises:
        ConfigError, DataError: the task, a key or the data are not what they have to be.
        LostError: the server was lost, or a function of the task failed on every rollout of a step; the run can be
            resumed with the same call.
    """
    overrides = {key: _text(value) for key, value in changes.items() if value is not None}
    if truth("dry_run", overrides.get("dry_run", "false")):
        raise ConfigError(
            "in Python a run is run",
            field="dry_run",
            value=True,
            fix="tinsmith run FILE.py dry_run=true",
        )
    if isinstance(task, Task):
        opened = open_value(task, overrides)
    else:
        opened = open_file(load_file(Path(task)), overrides)

    def told(message: str) -> None:
        if not opened.plan.circumstances.quiet:
            print(message, file=sys.stderr)

    return run_opened(opened, told)


def open_file(found: TaskFile, overrides: Mapping[str, str]) -> OpenedTask:
    """Return the task in a file, with `key=value` changes as they stand on a command line.

    Raises:
        ConfigError, DataError: a mistake in the file, in a key or in the data.
    """
    own = own_values(found, overrides)
    task = found.make(own)
    try:
        return _opened(
            task,
            name=task.name or found.path.stem,
            known=frozenset(own),
            overrides=overrides,
            own=own,
            code=found.sha256,
            file=found.path,
        )
    except _Mistake as error:
        raise error.error.told_at(found.path.name) from None


def open_value(task: Task, overrides: Mapping[str, str]) -> OpenedTask:
    """Return a task that was handed over in Python; data files are looked for in the current folder.

    Raises:
        ConfigError, DataError: a mistake in the task, in a key or in the data.
    """
    try:
        return _opened(
            task,
            name=f"python/{task.name or 'task'}",
            known=frozenset(),
            overrides=overrides,
            own={},
            code=code_sha256(task),
            file=None,
        )
    except _Mistake as error:
        raise error.error from None


class _Mistake(Exception):
    """A mistake that lies in the task, and not in what was changed of it."""

    def __init__(self, error: TinsmithError) -> None:
        self.error = error


def _opened(
    task: Task,
    *,
    name: str,
    known: frozenset[str],
    overrides: Mapping[str, str],
    own: Mapping[str, Value],
    code: Mapping[str, str],
    file: Path | None,
) -> OpenedTask:
    for key in overrides:
        if key not in _KEYS.known | known or key == "kind":
            raise unknown_key(key, overrides[key], (_KEYS.known | known) - {"kind"})
    experiment = Experiment(
        name=name,
        question=task.question or _QUESTION,
        subject=USER_TASK,
        parent=None,
        delta={"kind": Kind.TASK.value, **_settings(task)},
    )
    plan = make_plan(experiment, {key: overrides[key] for key in overrides if key not in known})
    changed = {key: own[key] for key in sorted(known & overrides.keys())}
    plan = replace(plan, overrides=MappingProxyType({**changed, **plan.overrides}))
    plan = with_default_log_path(plan)
    require_own_rates(plan)
    try:
        split = split_items(task, Path() if file is None else file.parent, plan.settings.seed)
    except TinsmithError as error:
        raise _Mistake(error) from None
    matter = TaskMatter(
        plan=plan, task=task, name=name, split=split, code=code, own_keys=own, file=file
    )
    return OpenedTask(plan=plan, matter=matter)


def require_same_code(found: TaskFile, manifest: Mapping[str, Any]) -> None:
    """Check that a task's file, and the modules beside it that it imports, are those that a run was made with.

    Raises:
        ConfigError: one is another now, or is not there any more.
    """
    then = manifest["identity"]["code"]
    now = found.sha256
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            raise ConfigError(
                f"this run cannot be made again here: {found.path.parent / name} is another file now",
                field=f"code.{name}",
                value=now.get(name),
                allowed=str(then.get(name)),
                fix="put back what it was, or run the task as it is now",
            )


def own_values(found: TaskFile, overrides: Mapping[str, str]) -> dict[str, Value]:
    """Return the values of a file's own keys.

    Raises:
        ConfigError: one has the name of a key that every run has, or a value cannot be read.
    """
    values: dict[str, Value] = {}
    for key in found.keys:
        if key.name in _KEYS.known:
            raise ConfigError(
                f"{found.path.name}: every run has a key of this name",
                field=key.name,
                fix="give the argument of task() another name",
            )
        values[key.name] = _own_value(key, overrides.get(key.name))
    return values


def _own_value(key: OwnKey, text: str | None) -> Value:
    if text is None:
        return key.default
    if key.kind is bool:
        return truth(key.name, text)
    try:
        return key.kind(text)
    except ValueError:
        allowed = "a whole number" if key.kind is int else "a number"
        raise unreadable(key.name, text, allowed) from None


def _settings(task: Task) -> dict[str, Value]:
    """Return the values that the file gives to keys of every run.

    Raises:
        ConfigError: there is no such key, or it only says where and how fast to run.
    """
    allowed = _KEYS.known - _KEYS.circumstances - _NOT_IN_FILE
    for key, value in task.keys.items():
        if key not in allowed:
            raise _Mistake(unknown_key(key, str(value), allowed))
    kinds = _KEYS.kinds
    return {
        key: value if kinds[key] is type(value) else _text(value)
        for key, value in task.keys.items()
    }


def _text(value: object) -> str:
    """Return a value as it stands on a command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHelp:
    """What `--help` says of a task's file."""

    name: str
    question: str
    keys: tuple[KeyHelp, ...]
    """The file's own ones first."""


def task_help(found: TaskFile) -> TaskHelp:
    """Return the keys of the task in a file.

    Raises:
        ConfigError: a mistake in the file.
    """
    own = own_values(found, {})
    task = found.make(own)
    try:
        settings = _settings(task)
    except _Mistake as error:
        raise error.error.told_at(found.path.name) from None
    experiment = Experiment(
        name=task.name or found.path.stem,
        question=task.question or _QUESTION,
        subject=USER_TASK,
        parent=None,
        delta={"kind": Kind.TASK.value, **settings},
    )
    shared = key_help(experiment)
    mine = [
        KeyHelp(
            name=key.name,
            values=dict.fromkeys(shared[0].values, shown_value(key.default)),
            words=key.words or "A key of this file.",
            circumstance=False,
        )
        for key in found.keys
    ]
    return TaskHelp(name=experiment.name, question=experiment.question, keys=(*mine, *shared))


def dry_run(opened: OpenedTask) -> list[str]:
    """Return what a person wants to know before starting; nothing is written or built."""
    plan, matter = opened.plan, opened.matter
    lines = [
        f"{plan.title}: {plan.experiment.question}",
        f"identity (without items, code and model): {plan_fingerprint(plan)[:16]}",
    ]
    given = {key: value for key, value in plan.experiment.delta.items() if key != "kind"}
    for told, values in (("from the file", given), ("changed here", plan.overrides)):
        if values:
            lines.append(f"{told}: " + ", ".join(f"{key}={one}" for key, one in values.items()))
    items = (*matter.split.train, *matter.split.held_out)
    lengths = Lengths(
        prompt=sum(len(one.prompt) for one in items) / len(items) / _CHARACTERS_PER_TOKEN,
        answer=plan.settings.max_tokens / 2,
        examined=min(plan.settings.eval_items, len(matter.split.held_out or items)),
        eval_samples=matter.frame.eval_samples,
    )
    if plan.circumstances.model_name is None and plan.circumstances.base_url is None:
        if matter.task.demonstrate is None:
            matter.nano_base(lines.append)  # which says what is missing
        lines.append(
            "a small base is built from the task's demonstrations first, unless it is cached"
        )
        return [*lines, *matter.before(), f"{plan.settings.steps} steps"]
    taken = time_and_disk(model_minutes(plan, lengths), 20)
    return [*lines, *matter.before(), f"{plan.settings.steps} steps; time: {taken}"]


def run_opened(opened: OpenedTask, told: Told) -> TaskRun:
    """Run a task to its end, or to where it is to stop, and write its page.

    Raises:
        ConfigError: it cannot begin.
        LostError: the server was lost, or a function of the task failed on every rollout of a step.
    """
    require_possible(opened.plan)  # before a base is built
    done = conduct(opened.plan, told=told, materials=with_model(opened.plan, opened.matter, told))
    return _left(done)


def _left(done: Conducted) -> TaskRun:
    lines = RunFolder(done.folder).read_lines(METRICS)
    last = {
        key: float(value)
        for key, value in (lines[-1] if lines else {}).items()
        if isinstance(value, int | float)
    }
    return TaskRun(
        folder=done.folder,
        report=None if done.finished is None else report_run(done.folder, USER_TASK),
        metrics=MappingProxyType(last),
        alarms=tuple(alarm.message for alarm in done.alarms),
    )
