"""Cells of a study: its arms at the size that is asked for, with the keys that are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.arms import Opened, StudyArm
from tinsmith.lab.study.arms import Study as StudyCells
from tinsmith.lab.study.keys import StudyKeys
from tinsmith.lab.study.study import Arm, BySize, Study, Value
from tinsmith.lab.study.task_study import sized_keys
from tinsmith.lab.user_task.functions import function_task
from tinsmith.lab.user_task.kinds import TASK_KINDS
from tinsmith.lab.user_task.opening import open_task
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.types.errors import ConfigError

SMALL: Final = "small"
"""The size of a pretrained model, which `at=small` asks for."""
_RATE: Final = "learning_rate"


def size_of(study: Study, given: Mapping[str, str]) -> str:
    """Return the name of the size that is asked for.

    Raises:
        ConfigError: there is none of this name.
    """
    if given.get("at") == At.SMALL.value and SMALL in study.sizes:
        return SMALL
    asked = given.get("size", usual_size(study))
    if asked not in _sizes(study):
        raise ConfigError(
            "there is no such size",
            field="size",
            value=asked,
            allowed=", ".join(_sizes(study)),
            fix="at=small for a pretrained model" if SMALL in study.sizes else "",
        )
    return asked


def usual_size(study: Study) -> str:
    """Return the size that is taken where none is asked for."""
    return "nano" if "nano" in study.sizes else _sizes(study)[0]


def _sizes(study: Study) -> list[str]:
    return [name for name in study.sizes if name != SMALL] or list(study.sizes)


def keys_of(study: Study, source: TaskSource | None = None) -> StudyKeys:
    """Return the keys of a study: its own, the task's, and any key of a run that not every arm sets itself."""
    task = source or function_task(study.task)
    set_by_some = {key for arm in study.arms for key in arm.keys}
    set_by_all = set.intersection(*(set(arm.keys) for arm in study.arms)) if study.arms else set[str]()
    names = [key.name for key in task.keys]
    keys = sized_keys(study.name, study.own, [name for name in names if name not in set_by_some])
    sizes = ", ".join(_sizes(study))
    own = tuple(
        replace(key, default=usual_size(study), words=f"How much is run: {sizes}.") if key.name == "size" else key
        for key in keys.own
    )
    set_by_study = keys.set_by_study | set_by_all | (set_by_some & set(names))
    return replace(keys, own=own, passed_on=keys.passed_on - set_by_all, set_by_study=set_by_study)


def cells_of(study: Study, given: Mapping[str, str], source: TaskSource | None = None) -> StudyCells:
    """Return the runs of a study as they are asked for; what is given goes before what its size says.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    source = source or function_task(study.task)
    keys = keys_of(study, source)
    keys.require(given)
    name = size_of(study, given)
    size = study.sizes[name]
    shared = {**_texts({**study.keys, **size.keys}, name), **keys.runs_keys(given)}
    rate = {**study.keys, **size.keys}.get(_RATE)
    task_keys = {key.name for key in source.keys}
    asked = {"seeds": ",".join(map(str, size.seeds)), **given}
    arms = [arm for arm in study.arms if arm.name not in size.without]
    cells = StudyCells(
        name=study.name,
        question=study.question,
        arms=tuple(_arm(source, arm, name, arm.keys.get(_RATE, rate), shared) for arm in arms),
        shared={key: value for key, value in shared.items() if key not in task_keys and _is_of_all(arms, key)},
    )
    return cells.asked(keys, asked)


def _is_of_all(arms: list[Arm], key: str) -> bool:
    return all(key in TASK_KINDS[_kind(arm)].keys.known for arm in arms)


def _kind(arm: Arm) -> Kind:
    return Kind(str(arm.keys.get("kind", Kind.TASK.value)))


def _arm(source: TaskSource, arm: Arm, size: str, rate: Value | BySize | None, shared: Mapping[str, str]) -> StudyArm:
    task_keys = {key.name for key in source.keys}
    kind, own = _kind(arm), _texts(arm.keys, size)
    known = TASK_KINDS[kind].keys.known | task_keys
    every = {**{key: value for key, value in shared.items() if key in known}, **own}
    if kind is Kind.TASK_SFT and "groups_per_batch" in shared and "batch_size" not in own:
        every["batch_size"] = shared["groups_per_batch"]  # it looks at as many items a step as one that is paid
    found = rate.get(size) if isinstance(rate, Mapping) else rate
    rates = () if found is None else (float(found),)
    rated = {_RATE: repr(rates[0])} if rates else {}
    assert source.found_at is not None, "the task can be opened again"
    return StudyArm(
        name=arm.name,
        words=arm.label,
        experiment=open_task(source, {**every, **rated}).experiment,
        rates=rates,
        keys={key: value for key, value in every.items() if key not in task_keys},
        opened=Opened(found_at=source.found_at, keys={key: one for key, one in every.items() if key in task_keys}),
    )


def _texts(keys: Mapping[str, Value | BySize], size: str) -> dict[str, str]:
    """Return keys as they stand on a command line, without the learning rate."""
    found = {key: value.get(size) if isinstance(value, Mapping) else value for key, value in keys.items()}
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in found.items()
        if value is not None and key != _RATE
    }


def settings_of(cells: StudyCells, rates: Mapping[str, float | None]) -> dict[str, object]:
    """Return the settings that decided a study's results: of all runs, and what arms have of their own."""
    shared: dict[str, object] = {key: value for key, value in cells.shared.items() if key != "quiet"}
    for arm in cells.arms:
        rate = rates[arm.name]
        opened = {} if arm.opened is None else arm.opened.keys
        own = {**arm.keys, **opened, **({} if rate is None else {_RATE: f"{rate:g}"})}
        shared |= {f"{arm.name}.{key}": value for key, value in own.items() if shared.get(key) != value}
    return shared
