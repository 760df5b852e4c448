"""Cells of a study: its arms at the size that is asked for, with the keys that are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.arms import Opened, StudyArm
from tinsmith.lab.study.arms import Study as StudyCells
from tinsmith.lab.study.cluster_keys import CLUSTER_KEYS
from tinsmith.lab.study.keys import DRY_RUN, GENERATOR, StudyKey, StudyKeys
from tinsmith.lab.study.study import Arm, ArmValue, BySeed, Study, Tuned, Value
from tinsmith.lab.user_task.chosen_items import Examined
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.lab.user_task.functions import function_task
from tinsmith.lab.user_task.kinds import TASK_KINDS
from tinsmith.lab.user_task.opening import open_task
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.lab.user_task.task import Task
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
SMALL: Final = "small"
"""The size of a pretrained model, which `at=small` asks for."""
_RATE: Final = "learning_rate"
_TASK: Final = "task"
_EVALUATE: Final = "evaluate"
"""The key by which a task has a validation part of its own."""


OpenSource = Callable[[str, Mapping[str, str]], TaskSource | None]
"""Opens what a command line names, as the command does; None: it is no task."""


def studied_source(given: Mapping[str, str], open_source: OpenSource, about: str) -> TaskSource:
    """Return where the task comes from that `task` names.

    `about` says what wants one, for who names none.
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


def keys_of_source(source: TaskSource, given: Mapping[str, str]) -> dict[str, str]:
    """Return what of a study's keys are the task's own."""
    own = {key.name: given[key.name] for key in source.keys if key.name in given}
    own.pop(_TASK, None)  # the study's
    return {**own, _TASK: given[GENERATOR.name]} if GENERATOR.name in given else own


def size_of(study: Study, given: Mapping[str, str]) -> str:
    """Return the name of the size that is asked for."""
    if given.get("at") == At.SMALL.value and SMALL in study.sizes and not (study.is_named and "size" in given):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A study's keys as they are asked for: what is given goes before what its size says, and that before defaults."""

    size: str
    source: TaskSource | None
    """None: the study is on labels."""
    given: Mapping[str, str]
    own: Mapping[str, str]
    """Keys of the study alone."""
    shared: Mapping[str, str]
    """Keys of every run and of the task, without the learning rate."""
    rate: ArmValue | None
    """The learning rate of arms that say none."""
    open_source: OpenSource
    """Opens tasks by name, as a command line does."""

    @property
    def task_keys(self) -> frozenset[str]:
        """Names of the task's own keys."""
        return frozenset() if self.source is None else frozenset(key.name for key in self.source.keys)

    def plan(self, keys: Mapping[str, Value], kind: Kind = Kind.TASK) -> Plan:
        """Return the plan of a run of this kind, with keys in place of those asked for."""
        assert self.source is not None, "the study is of a task"
        known = TASK_KINDS[kind].keys.known | self.task_keys
        texts = {key: as_text(value) for key, value in keys.items()}
        shared = {key: value for key, value in self.shared.items() if key in known}
        return open_task(self.source, {**shared, "kind": kind.value, **texts})

    def plan_of(self, name: str, given: Mapping[str, str]) -> Plan:
        """Return the plan of a run on a task by its name."""
        source = self.open_source(name, given)
        if source is None:
            raise ConfigError("only runs on a task can be looked at", field="run", value=name)
        return open_task(source, given)


def opened_task(plan: Plan) -> Task:
    """Return the task of a plan."""
    entry = plan.experiment.subject
    assert isinstance(entry, UserTaskEntry)
    assert entry.opened is not None, "it was opened by its source"
    return entry.opened.task


def as_text(value: Value) -> str:
    """Return a value as it stands on a command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def keys_of(study: Study, source: TaskSource | None = None) -> StudyKeys:
    """Return the keys of a study: its own, the task's, and any key of a run that not every arm sets itself."""
    opened = None if source is None and isinstance(study.task, str) else _source(study, source)
    names = [] if opened is None else [key.name for key in opened.keys]
    own_names = {key.name for key in study.own}
    clash = next((name for name in names if name in own_names and name != _TASK), None)
    if clash is not None:
        raise ConfigError(
            "the study has a key of this name, and cannot tell it from the task's",
            field=clash,
            fix="give the argument of task() another name",
        )
    own_runs = [arm for arm in study.arms if arm.on is None]
    set_by_some = {key for arm in own_runs for key in arm.keys}
    set_by_all = set.intersection(*(set(arm.keys) for arm in own_runs)) if own_runs else set[str]()
    unsized = int(study.task is None)  # a study on labels has no sizes
    usual = [
        StudyKey("size", usual_size(study), f"How much is run: {', '.join(_sizes(study))}."),
        StudyKey("out", f"runs/{study.name.replace('_', '-')}", "The study's folder."),
        StudyKey("seeds", ",".join(map(str, study.sizes[usual_size(study)].seeds)), "That are reported."),
        StudyKey("tuning_seed", "0", "On which the study's settings were chosen."),
    ][unsized:]
    own = (*(key for key in usual if key.name not in own_names), *study.own, DRY_RUN, *CLUSTER_KEYS)
    says = ["size", "seeds", "out", *(one.name for one in study.own)][unsized:]
    instead = ", ".join(dict.fromkeys(says))
    if study.task is None:
        return StudyKeys(
            own=own,
            passed_on=study.passes,
            prefixes=study.prefixes,
            set_by_study=study.fixed,
            instead=instead,
            more="Any other key that its runs share may be given.",
        )
    passed = (_RL - _SET - _BY_EXAMPLE) | study.passes | {name for name in names if name not in set_by_some}
    return StudyKeys(
        own=own,
        passed_on=passed - set_by_all - study.fixed,
        set_by_study=(_SET - study.passes) | study.fixed | set_by_all | (set_by_some & set(names)),
        instead=instead,
        more="Any key of RL is one of every run that has it, and so are the task's; SFT looks at as many items a step.",
    )


def _source(study: Study, source: TaskSource | None) -> TaskSource | None:
    if source is not None or study.task is None:
        return source
    if isinstance(study.task, str):
        raise ConfigError("a named task is opened by the command line alone", field=_TASK, value=study.task)
    return function_task(study.task)


def named_source(study: Study, given: Mapping[str, str], open_source: OpenSource) -> TaskSource | None:
    """Return where the task of a study that names one comes from; None: the study has its task's function."""
    if not study.is_named:
        return None
    return studied_source(_sized(study, given)[0], open_source, f"{study.name} is of runs on a task")


def _sized(study: Study, given: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Return texts of all that is asked for, and whether the size stands for it.

    Where another task is named than the size's, only the study's own keys of the size, and its steps, stand.
    """
    name = size_of(study, given)
    keys = _texts({**study.keys, **study.sizes[name].keys}, name)
    if not isinstance(study.task, str):
        return {**keys, **given}, True
    keys = {_TASK: study.task, **keys}
    if "generator" in given or given.get(_TASK, keys[_TASK]) != keys[_TASK]:
        own = {key.name for key in study.own} | {"steps"} | study.keys.keys()
        return {**{key: value for key, value in keys.items() if key in own}, **given}, False
    return {**keys, **given}, True


def no_source(name: str, given: Mapping[str, str]) -> TaskSource | None:
    """Open nothing."""
    del name, given


def asked_of(
    study: Study, given: Mapping[str, str], source: TaskSource | None = None, open_source: OpenSource = no_source
) -> Asked:
    """Return what is asked of a study."""
    source = _source(study, source)
    keys = keys_of(study, source)
    keys.require(given)
    name = size_of(study, given)
    every, sized = _sized(study, given)
    own_names = {key.name for key in keys.own}
    own = {key.name: every.get(key.name, key.default) for key in keys.own}
    shared = {key: value for key, value in every.items() if key not in own_names and key != _RATE}
    if study.is_named and source is not None:
        shared |= keys_of_source(source, every)
    rate: ArmValue | None = {**study.keys, **(study.sizes[name].keys if sized else {})}.get(_RATE)
    if _RATE in given:
        rate = float(given[_RATE])
    asked = Asked(size=name, source=source, given=given, own=own, shared=shared, rate=rate, open_source=open_source)
    return asked if study.shared is None else replace(asked, shared=study.shared(asked))


def completed(study: Study, asked: Asked) -> Study:
    """Return a study with what hangs on the keys that are asked for."""
    return study if study.complete is None else replace(study.complete(study, asked), complete=None)


def cells_of(
    study: Study, given: Mapping[str, str], source: TaskSource | None = None, open_source: OpenSource = no_source
) -> StudyCells:
    """Return the runs of a study that no others decide on, as they are asked for."""
    asked = asked_of(study, given, source, open_source)
    return first_cells(completed(study, asked), asked)


def first_cells(study: Study, asked: Asked) -> StudyCells:
    """Return the runs of a completed study that no others decide on."""
    arms = [arm for arm in _arms(study, asked) if arm.on is None]
    cells = StudyCells(
        name=study.name,
        question=study.question,
        arms=tuple(_arm(asked, arm, arm.keys) for arm in arms if not arm.is_staged),
        shared={key: one for key, one in asked.shared.items() if key not in asked.task_keys and _is_of_all(arms, key)},
    )
    given = {"seeds": ",".join(map(str, study.sizes[asked.size].seeds)), **asked.given}
    if not asked.own["out"]:
        given["out"] = _out(study, asked)
    return cells.asked(keys_of(study, asked.source), given, fewest_seeds=study.fewest_seeds)


def _out(study: Study, asked: Asked) -> str:
    task = asked.own[_TASK]
    plain = Path(task).stem if task.endswith(".py") else task.replace(":", "-").replace("/", "-")
    return "-".join(filter(None, [f"runs/{study.name.replace('/', '-')}", plain, asked.given.get(GENERATOR.name)]))


def later_arms(
    study: Study, asked: Asked, rates: Mapping[str, float], keys: Mapping[str, Mapping[str, Value | BySeed]]
) -> tuple[StudyArm, ...]:
    """Return the arms that others decide on.

    Args:
        study: a completed study.
        asked: what is asked of it.
        rates: learning rates that are chosen, by arm.
        keys: what `Arm.after` computed, by arm.
    """
    found: list[StudyArm] = []
    for arm in _arms(study, asked):
        if arm.is_staged:
            own = {key: rates[one.arm] if isinstance(one, Tuned) else one for key, one in arm.keys.items()}
            by_seed: dict[int, dict[str, str]] = {}
            for key, value in keys.get(arm.name, {}).items():
                if isinstance(value, Mapping):
                    for seed, text in value.items():
                        by_seed.setdefault(seed, {})[key] = text
                else:
                    own[key] = value
            found.append(replace(_arm(asked, arm, own), by_seed=by_seed))
    return tuple(found)


def _arms(study: Study, asked: Asked) -> list[Arm]:
    return [arm for arm in study.arms if arm.name not in study.sizes[asked.size].without]


def _is_of_all(arms: list[Arm], key: str) -> bool:
    return all(arm.experiment is not None or key in TASK_KINDS[_kind(arm)].keys.known for arm in arms)


def _kind(arm: Arm) -> Kind:
    return Kind(str(arm.keys.get("kind", Kind.TASK.value)))


def _arm(asked: Asked, arm: Arm, keys: Mapping[str, ArmValue]) -> StudyArm:
    shared = asked.shared
    kind, own = _kind(arm), _texts(keys, asked.size)
    if arm.experiment is not None:
        rates = _rates(keys.get(_RATE), asked.size)
        return StudyArm(arm.name, arm.label, arm.experiment, rates, own)
    known = TASK_KINDS[kind].keys.known | asked.task_keys
    every = {**{key: value for key, value in shared.items() if key in known}, **own}
    if kind is Kind.TASK_SFT and "groups_per_batch" in shared and "batch_size" not in own:
        every["batch_size"] = shared["groups_per_batch"]  # it looks at as many items a step as one that is paid
    rates = _rates(keys.get(_RATE, asked.rate), asked.size)
    made = _made(asked, arm, arm.name, every, rates)
    if len(rates) < 2:
        return made
    part = _EVALUATE if _EVALUATE in asked.task_keys else "examined"
    apart = {**every, part: Examined.VALIDATION.value}
    return replace(made, tuned_as=_made(asked, arm, f"{arm.name}-validation", apart, rates))


def _made(asked: Asked, arm: Arm, name: str, every: Mapping[str, str], rates: tuple[float, ...]) -> StudyArm:
    rated = {_RATE: repr(rates[0])} if rates else {}
    source, task_keys = asked.source, asked.task_keys
    assert source is not None, "the study is of a task"
    assert source.found_at is not None, "the task can be opened again"
    return StudyArm(
        name=name,
        words=arm.label,
        experiment=open_task(source, {**every, **rated}).experiment,
        rates=rates,
        keys={key: value for key, value in every.items() if key not in task_keys},
        opened=Opened(found_at=source.found_at, keys={key: one for key, one in every.items() if key in task_keys}),
    )


def _rates(value: ArmValue | None, size: str) -> tuple[float, ...]:
    found = value.get(size) if isinstance(value, Mapping) else value
    if found is None:
        return ()
    return tuple(map(float, found)) if isinstance(found, Sequence) and not isinstance(found, str) else (_float(found),)


def _float(value: ArmValue) -> float:
    assert isinstance(value, str | int | float)
    return float(value)


def _texts(keys: Mapping[str, ArmValue], size: str) -> dict[str, str]:
    """Return keys as they stand on a command line, without the learning rate."""
    found = {key: value.get(size) if isinstance(value, Mapping) else value for key, value in keys.items()}
    return {
        key: as_text(value)
        for key, value in found.items()
        if key != _RATE and isinstance(value, str | int | float | bool)
    }


def settings_of(cells: StudyCells, arms: Sequence[StudyArm], rates: Mapping[str, float | None]) -> dict[str, object]:
    """Return the settings that decided a study's results: of all runs, and what arms have of their own."""
    shared: dict[str, object] = {key: value for key, value in cells.shared.items() if key != "quiet"}
    for arm in arms:
        rate = rates[arm.name]
        opened = {} if arm.opened is None else arm.opened.keys
        own = {**arm.keys, **opened, **({} if rate is None else {_RATE: f"{rate:g}"})}
        shared |= {f"{arm.name}.{key}": value for key, value in own.items() if shared.get(key) != value}
    return shared
