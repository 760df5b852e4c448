"""Studies whose arms are ways to train on one task: the task by its name, keys of each arm, keys of each size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.arms import Opened, Study, StudyArm
from tinsmith.lab.study.cluster_keys import CLUSTER_KEYS
from tinsmith.lab.study.keys import DRY_RUN, StudyKey, StudyKeys
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.lab.user_task.kinds import TASK_KINDS
from tinsmith.lab.user_task.opening import open_task
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.types.errors import ConfigError

_RL: Final = TASK_KINDS[Kind.TASK].keys.known
_SFT: Final = TASK_KINDS[Kind.TASK_SFT].keys.known
_BY_EXAMPLE: Final = frozenset(["sft_steps", "sft_learning_rate", "sft_batch_size", "batch_size"])
_SET: Final = frozenset(
    [
        "kind",
        "learning_rate",
        "seed",
        "eval_every",
        "save_every",
        "examined",
        "shuffle_labels",
        "base_url",
        "log_path",
        "stop_after",
        "behavior_if_log_dir_exists",
        "quiet",
    ]
)
"""Keys of a run that a study sets itself."""


class Size(StrEnum):
    """How much a study does."""

    SMALLEST = "smallest"
    """About a minute, with one seed: it shows that the study runs, and says nothing of methods."""
    NANO = "nano"
    SMALL = "small"
    """On SmolLM2; it is `at=small` that asks for it."""


Sizes = Mapping[Size, Mapping[str, str]]
"""Keys of every run, and of the task, by size; `seeds` among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskArm:
    """One way to train on the task."""

    name: str
    words: str
    rates: Mapping[Size, float] = field(default_factory=dict[Size, float])
    """Its learning rate by size; none: nothing is trained."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """What it has of its own: keys of a run or of the task."""


def sized_keys(name: str, own: Sequence[StudyKey], task: Sequence[str]) -> StudyKeys:
    """Return the keys of a study of this kind: its own, the task's, and any key of RL; SFT has those it shares."""
    return StudyKeys(
        own=(
            StudyKey("size", Size.NANO.value, "nano, or smallest: about a minute, with one seed."),
            StudyKey("out", f"runs/{name.replace('_', '-')}", "The study's folder."),
            StudyKey("seeds", "1,2,3,4,5", "That are reported."),
            StudyKey("tuning_seed", "0", "On which the study's settings were chosen."),
            *own,
            DRY_RUN,
            *CLUSTER_KEYS,
        ),
        passed_on=(_RL - _SET - _BY_EXAMPLE) | frozenset(task),
        set_by_study=_SET,
        instead="size, seeds and out",
        more="Any key of RL is one of every run that has it, and so are the task's; SFT looks at as many items a step.",
    )


def size_of(given: Mapping[str, str]) -> Size:
    """Return the size that is asked for.

    Raises:
        ConfigError: there is none of this name.
    """
    if given.get("at") == At.SMALL.value:
        return Size.SMALL
    asked = given.get("size", Size.NANO.value)
    allowed = (Size.SMALLEST, Size.NANO)
    if asked not in allowed:
        raise ConfigError(
            "there is no such size",
            field="size",
            value=asked,
            allowed=", ".join(allowed),
            fix="at=small for a pretrained model",
        )
    return Size(asked)


def task_study(
    study: Study, source: TaskSource, arms: Sequence[TaskArm], sizes: Sizes, keys: StudyKeys, given: Mapping[str, str]
) -> Study:
    """Return the study with its arms, as it was asked for; what is given goes before what its size says.

    An arm that is taught by example looks at as many items in a step as one that is paid looks at groups.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    keys.require(given)
    size = size_of(given)
    usual = {key: value for key, value in sizes[size].items() if key != "seeds"}
    shared = {**usual, **keys.runs_keys(given)}
    own = {key.name for key in source.keys}
    taught = any(arm.keys.get("kind") == Kind.TASK_SFT.value for arm in arms)
    of_runs = {key: value for key, value in shared.items() if key not in own and (key in _SFT or not taught)}
    asked = {"seeds": sizes[size].get("seeds", keys.default("seeds")), **given}
    made = tuple(_arm(source, arm, arm.rates.get(size), shared) for arm in arms)
    return Study(name=study.name, question=study.question, arms=made, shared=of_runs).asked(keys, asked)


def _arm(source: TaskSource, arm: TaskArm, rate: float | None, shared: Mapping[str, str]) -> StudyArm:
    own = {key.name for key in source.keys}
    every = {**shared, **arm.keys}
    if arm.keys.get("kind") == Kind.TASK_SFT.value:
        every = {key: value for key, value in every.items() if key in _SFT | own}
        every["batch_size"] = shared["groups_per_batch"]
    rated = {} if rate is None else {"learning_rate": repr(rate)}
    assert source.found_at is not None, "the task is kept"
    return StudyArm(
        name=arm.name,
        words=arm.words,
        experiment=open_task(source, {**every, **rated}).experiment,
        rates=() if rate is None else (rate,),
        keys={key: value for key, value in every.items() if key not in own},
        opened=Opened(found_at=source.found_at, keys={key: value for key, value in every.items() if key in own}),
    )


def minutes_of(plan: Plan) -> float | None:
    """Return how long a run on a task takes."""
    entry = plan.experiment.subject
    assert isinstance(entry, UserTaskEntry), "the study is of a task"
    return entry.run_data(plan, print).minutes()


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
