"""The task that a study is about: `task=`, and `generator=` where that is one of several of its package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.lab.study.keys import StudyKey, StudyKeys
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.types.errors import ConfigError

OpenSource = Callable[[str, Mapping[str, str]], TaskSource | None]
"""Opens what a command line names, as the command does; None: it is no task."""
_TASK: Final = "task"
GENERATOR: Final = StudyKey("generator", "", "With task=reasoning_gym: which of its tasks.")
SUMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        _TASK: "reasoning_gym",
        "config.max_terms": "3",
        "config.min_digits": "1",
        "config.max_digits": "2",
        "read": "number",
        "max_tokens": "24",
    }
)
"""What a small pretrained model solves now and then, and learns to solve more often: sums of two or three numbers."""


def studied_source(given: Mapping[str, str], open_source: OpenSource, about: str) -> TaskSource:
    """Return where the task comes from that `task` names.

    `about` says what wants one, for who names none.

    Raises:
        ConfigError: nothing is found there, or `generator` is given where there is but one.
    """
    named = given.get(_TASK, "")
    asked = {key: value for key, value in given.items() if key != _TASK}
    if GENERATOR.name in given:
        asked[_TASK] = given[GENERATOR.name]
    source = open_source(named, asked) if named else None
    if source is None or source.found_at is None:
        raise ConfigError(
            about,
            field=_TASK,
            value=named,
            allowed="FILE.py, or the name of a task that is kept",
            fix="task=reasoning_gym generator=chain_sum",
        )
    if GENERATOR.name in given and all(key.name != _TASK for key in source.keys):
        raise ConfigError("this task is not one of several", field=GENERATOR.name, value=given[GENERATOR.name])
    return source


def sized_presets(presets: Mapping[str, str], keys: StudyKeys, given: Mapping[str, str], usual: str) -> dict[str, str]:
    """Return what a size of a study stands for, with its task; of another task, what is no task's key, and `steps`.

    Args:
        presets: what the size stands for; it may name a task.
        keys: the study's own keys, the task's not among them.
        given: what the command line says.
        usual: the task of a size that names none.
    """
    of_task = {_TASK: usual, **presets}
    if GENERATOR.name not in given and given.get(_TASK, of_task[_TASK]) == of_task[_TASK]:
        return of_task
    own = {key.name for key in keys.own} | {"steps"}
    return {key: value for key, value in of_task.items() if key in own}


def keys_of_source(source: TaskSource, given: Mapping[str, str]) -> dict[str, str]:
    """Return what of a study's keys are the task's own."""
    own = {key.name: given[key.name] for key in source.keys if key.name in given}
    own.pop(_TASK, None)  # the study's
    return {**own, _TASK: given[GENERATOR.name]} if GENERATOR.name in given else own
