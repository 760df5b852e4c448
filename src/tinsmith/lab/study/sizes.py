"""Runs of a study: its arms at the size that is asked for, with the keys that are given, over rates and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.experiment import Experiment, Plan, make_plan
from tinsmith.lab.experiment.key_text import At, converted, shown_value, truth, unknown_key
from tinsmith.lab.experiment.materials import RATE, NoRateError, require_own_rates
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.study.keys import (
    CLUSTER_KEYS,
    DRY_RUN,
    GENERATOR,
    StudyKey,
    StudyKeys,
    cluster_of,
    numbers,
    seeds_apart,
)
from tinsmith.lab.study.record import Tried
from tinsmith.lab.study.study import Arm, ArmValue, BySeed, Measure, OnRuns, Study, Table, Tuned, Value
from tinsmith.lab.user_task.entry import EVERY_KEY, TASK_KINDS, open_task
from tinsmith.lab.user_task.functions import TaskSource, function_task
from tinsmith.lab.user_task.items import Examined
from tinsmith.types.errors import ConfigError, require_apart, require_known

CELLS: Final = "cells"  # The folder of a study's runs, in the study's own.
SMALL: Final = "small"  # The size of a pretrained model, which `at=small` asks for.
_RL: Final = TASK_KINDS[Kind.TASK].known
_BY_EXAMPLE: Final = frozenset(["sft_steps", "sft_learning_rate", "sft_batch_size", "batch_size"])
_SET: Final = frozenset(
    [
        *("kind", "learning_rate", "seed", "eval_every", "save_every", "examined", "shuffle_labels", "base_url"),
        *("log_path", "stop_after", "behavior_if_log_dir_exists", "quiet", "check_reward"),
    ]
)
"""Keys of a run that a study sets itself."""
_TASK: Final = "task"
_EVALUATE: Final = "evaluate"  # The key by which a task has a validation part of its own.
_ARGUMENTS: Final = frozenset(["seed", "seeds"])  # Of a Size, and no keys of its runs or of an arm.
OpenSource = Callable[[str, Mapping[str, str]], TaskSource | None]
"""Opens what a command line names, as the command does; None: it is no task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a study."""

    experiment: Experiment
    overrides: Mapping[str, str]
    folder: Path
    found_at: str = ""
    """Opens the run's task, as experiments that are made of tasks are not registered; empty: the experiment is."""
    task_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the task's source; the experiment has their values already."""
    label: str = ""  # Name for a reader; empty: that of its folder.

    @property
    def command(self) -> list[str]:
        """The words after `tinsmith run`, but for where and how fast."""
        changes = {**self.task_keys, **self.overrides}
        return [self.found_at or self.experiment.name, *(f"{key}={value}" for key, value in changes.items())]


@dataclass(frozen=True, slots=True)
class StudyArm:
    """An arm as it is run; its runs differ by learning rate and seed alone."""

    name: str
    label: str
    experiment: Experiment
    rates: tuple[float, ...] = ()  # Ascending. Several are tried, one is taken as it is; none: nothing is trained.
    keys: Mapping[str, str] = field(default_factory=dict[str, str])  # That are the arm's own.
    found_at: str = ""  # As of a Cell.
    task_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    by_seed: Mapping[int, Mapping[str, str]] = field(default_factory=dict[int, Mapping[str, str]])
    """Keys of single runs."""
    tuned_as: StudyArm | None = None  # Is run in its place to choose a rate, where that is not the arm itself.
    rate: float | None = None  # The rate that was chosen; None: nothing is trained, or it is not yet.
    tried: tuple[Tried, ...] = ()
    cells: Sequence[Cell] = ()  # Runs at the chosen rate, one a seed.


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCells:
    """Arms, of which each is run with every seed, and what all runs have in common."""

    name: str
    question: str
    arms: tuple[StudyArm, ...]
    shared: Mapping[str, str]  # Keys of every run.
    out: Path = Path()
    seeds: tuple[int, ...] = ()
    tuning_seed: int = 0  # Of the runs by which rates are chosen; none of those that are reported.
    dry_run: bool = False
    cluster: tuple[str, int] | None = None  # Address, and most cells at once; None: they run here.

    def cell(self, arm: StudyArm, rate: float | None, seed: int) -> Cell:
        """Return an arm's run with a rate (None: nothing is trained) and a seed."""
        rated = {} if rate is None else {RATE: repr(rate)}
        shown = "".join(f"-rate={value}" for value in rated.values())
        return Cell(
            experiment=arm.experiment,
            overrides={**self.shared, **arm.keys, **arm.by_seed.get(seed, {}), **rated, "seed": str(seed)},
            folder=self.out / CELLS / f"{arm.name}{shown}-seed={seed}",
            found_at=arm.found_at,
            task_keys=arm.task_keys,
            label=f"{arm.label},{f' rate {rate:g},' if len(arm.rates) > 1 else ''} seed {seed}",
        )

    def tuning(self, arm: StudyArm) -> dict[float, Cell]:
        """Return the runs by which an arm's rate is chosen; none where there is only one to choose."""
        rates = arm.rates if len(arm.rates) > 1 else ()
        return {rate: self.cell(arm.tuned_as or arm, rate, self.tuning_seed) for rate in rates}

    def reported(self, arm: StudyArm, rate: float | None) -> list[Cell]:
        """Return an arm's runs at its rate, one a seed."""
        return [self.cell(arm, rate, seed) for seed in self.seeds]

    def settings(self, arms: Sequence[StudyArm]) -> dict[str, object]:
        """Return the settings that decided the results: of all runs, and what arms have of their own."""
        found: dict[str, object] = {key: value for key, value in self.shared.items() if key != "quiet"}
        for arm in arms:
            rate = {} if arm.rate is None else {RATE: f"{arm.rate:g}"}
            own = {**arm.keys, **arm.task_keys, **rate}
            found |= {f"{arm.name}.{key}": value for key, value in own.items() if found.get(key) != value}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A study's keys as they are asked for: what is given goes before what its size says, and that before defaults."""

    size: str
    source: TaskSource | None  # None: the study is on labels.
    given: Mapping[str, str]
    own: Mapping[str, str]  # Keys of the study alone.
    shared: Mapping[str, str]  # Keys of every run and of the task, without the learning rate.
    rate: ArmValue | None  # The learning rate of arms that say none.
    open_source: OpenSource  # Opens tasks by name, as a command line does.

    @property
    def task_keys(self) -> frozenset[str]:
        """Names of the task's own keys."""
        return frozenset() if self.source is None else frozenset(key.name for key in self.source.keys)

    def plan(self, keys: Mapping[str, Value], kind: Kind = Kind.TASK) -> Plan:
        """Return the plan of a run of this kind, with keys in place of those asked for."""
        assert self.source is not None, "the study is of a task"
        known = TASK_KINDS[kind].known | self.task_keys
        shared = {key: value for key, value in self.shared.items() if key in known}
        return open_task(self.source, {**shared, "kind": kind.value, **_texts(keys, self.size, rated=True)})

    def plan_of(self, name: str, given: Mapping[str, str]) -> Plan:
        """Return the plan of a run on a task by its name."""
        source = self.open_source(name, given)
        if source is None:
            raise ConfigError("only runs on a task can be examined", field="run", value=name)
        return open_task(source, given)


def size_of(study: Study, given: Mapping[str, str]) -> str:
    """Return the name of the size that is asked for."""
    if given.get("at") == At.SMALL.value and SMALL in study.sizes and not (study.is_named and "size" in given):
        return SMALL
    size = given.get("size", usual_size(study))
    if size not in _sizes(study):
        fix = "at=small for a pretrained model" if SMALL in study.sizes else None
        raise ConfigError("there is no such size", field="size", value=size, allowed=_sizes(study), fix=fix)
    return size


def usual_size(study: Study) -> str:
    """Return the size that is taken where none is asked for."""
    return "nano" if "nano" in study.sizes else _sizes(study)[0]


def _sizes(study: Study) -> list[str]:
    if not study.sizes:
        raise ConfigError("there is no size", field="sizes", value={}, allowed="one or more")
    return [name for name in study.sizes if name != SMALL] or list(study.sizes)


def keys_of(study: Study, source: TaskSource | None = None) -> StudyKeys:
    """Return the keys of a study: its own, the task's, and any key of a run that not every arm sets itself."""
    if source is None and callable(study.task):
        source = function_task(study.task)
    names = [] if source is None else [key.name for key in source.keys]
    own_names = [key.name for key in study.own]
    for name in names:
        if name in own_names and name != _TASK:
            what = "the study and its task both have a key of this name"
            raise ConfigError(what, field=name, fix="give the argument of task() another name")
    own_runs = [set(arm.keys) for arm in study.arms if arm.on is None]
    set_by_some, set_by_all = set[str]().union(*own_runs), set.intersection(*own_runs or [set[str]()])
    small = [f"{SMALL} (as at={SMALL})"] if len(study.sizes) > 1 and SMALL in study.sizes else []
    usual = [
        StudyKey("size", usual_size(study), f"Size of the study: {', '.join([*_sizes(study), *small])}."),
        StudyKey("out", f"runs/{study.name.replace('_', '-')}", "Folder of the study."),
        StudyKey("seeds", ",".join(map(str, study.sizes[usual_size(study)].seeds)), "Seeds of the reported runs."),
        StudyKey("tuning_seed", "0", "Seed on which learning rates and other settings are chosen."),
    ]
    says, set_here, passed = ["size", "seeds", "out", *own_names], _SET, _RL - _SET - _BY_EXAMPLE
    more = ""
    if study.task is None:  # a study on labels has no sizes, and says which keys of its runs may be given
        usual, says, set_here, passed = usual[1:], says[1:], frozenset[str](), frozenset[str]()
        more = "Any other key that all runs have may be given too."
    passed |= _passes(study) | {name for name in names if name not in set_by_some}
    passed_on = passed - set_by_all - study.fixed
    if not more:
        listed = [*(name for name in names if name in passed_on), *sorted(passed_on.difference(names, ["dry_run"]))]
        more = f"For every run too, as `tinsmith run TASK --help` says what they mean: {', '.join(listed)}."
    return StudyKeys(
        own=(*(key for key in usual if key.name not in own_names), *study.own, DRY_RUN, *CLUSTER_KEYS),
        passed_on=passed_on,
        prefixes=study.prefixes,
        set_by_study=(set_here - _passes(study)) | study.fixed | set_by_all | (set_by_some & set(names)),
        instead=", ".join(dict.fromkeys(says)),
        more=more,
    )


def _sized(study: Study, given: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Return texts of all that is asked for, and whether the size stands for it.

    Where another task is named than the size's, only the study's own keys of the size, and its steps, stand.
    """
    name = size_of(study, given)
    keys = _texts({**study.keys, **study.sizes[name].keys}, name)
    if not isinstance(study.task, str):
        return {**keys, **given}, True
    keys = {_TASK: study.task, **keys}
    if GENERATOR.name in given or given.get(_TASK, keys[_TASK]) != keys[_TASK]:
        own = {key.name for key in study.own} | {"steps"} | study.keys.keys()
        return {**{key: value for key, value in keys.items() if key in own}, **given}, False
    return {**keys, **given}, True


def _source(study: Study, every: Mapping[str, str], open_source: OpenSource) -> TaskSource | None:
    """Return where the task comes from: the study's function, or what `task` names."""
    if study.task is None or not isinstance(study.task, str):
        return None if study.task is None else function_task(study.task)
    named = every.get(_TASK, "")
    arguments = {key: value for key, value in every.items() if key != _TASK}
    if GENERATOR.name in every:
        arguments[_TASK] = every[GENERATOR.name]
    source = open_source(named, arguments) if named else None
    if source is None or source.found_at is None:
        allowed, fix = "FILE.py, or the name of a packaged task", "task=reasoning_gym generator=chain_sum"
        raise ConfigError(f"{study.name} is of runs on a task", field=_TASK, value=named, allowed=allowed, fix=fix)
    if GENERATOR.name in every and all(key.name != _TASK for key in source.keys):
        raise ConfigError("this task is not one of several", field=GENERATOR.name, value=every[GENERATOR.name])
    return source


def no_source(name: str, given: Mapping[str, str]) -> TaskSource | None:
    """Open nothing."""
    del name, given


def planned(study: Study, given: Mapping[str, str], open_source: OpenSource = no_source) -> tuple[Study, Request]:
    """Return what is asked of a study, and the study with what hangs on that, such as its arms."""
    if given.get("size") == SMALL and SMALL in study.sizes and given.get("at", SMALL) == SMALL:
        given = {**{key: value for key, value in given.items() if key != "size"}, "at": SMALL}  # As runs spell it.
    every, sized = _sized(study, given)
    source = _source(study, every, open_source)
    keys = keys_of(study, source)
    keys.require(given)
    own_names = {key.name for key in keys.own}
    shared = {key: value for key, value in every.items() if key not in own_names and key != RATE}
    if study.is_named and source is not None:
        shared |= {key.name: every[key.name] for key in source.keys if key.name in every and key.name != _TASK}
        shared |= {_TASK: every[GENERATOR.name]} if GENERATOR.name in every else {}
    size = size_of(study, given)
    usual = {**study.keys, **(study.sizes[size].keys if sized else {})}.get(RATE)
    request = Request(
        size=size,
        source=source,
        given=given,
        own={key.name: every.get(key.name, key.default) for key in keys.own},
        shared=shared,
        rate=float(str(converted(RATE, given[RATE], float))) if RATE in given else usual,
        open_source=open_source,
    )
    request = request if study.shared is None else replace(request, shared=study.shared(request))
    study = study if study.complete is None else replace(study.complete(study, request), complete=None)
    _require_arms(study, size)
    if source is not None:
        _require_known(study, request, sized)
    return study, request


def _require_arms(study: Study, size: str) -> None:
    """Check that arms are called apart, and that all that names an arm names one that there is."""
    called = [(arm.name, arm.label) for arm in _arms(study, size)]
    wrong = next((one for one, _ in called if one in ("", ".", "..") or "/" in one or "\\" in one), None)
    if wrong is not None:
        raise ConfigError("an arm's folders have its name", field="arms.name", value=wrong, allowed="a plain name")
    require_apart("arm", [*called, *((name, way[0]) for name, way in study.ways.items())], field="arms")
    standing = [one for arm in study.arms for one in (arm.on, *arm.keys.values())]
    named = [(getattr(study, field), field) for field in ("against", "control", "untrained")]
    named += [(one.arm, "arms") for one in standing if isinstance(one, OnRuns | Tuned)]
    named += [(way[1], "ways") for way in study.ways.values()]
    named += [(name, "without") for one in study.sizes.values() for name in one.without]
    require_known("arm", named, study.names)
    tables = [one.measures for one in study.tables if isinstance(one, Table)]
    measures = dict.fromkeys(one for some in tables for one in some if isinstance(one, Measure))
    if measures:
        require_apart("measure", [(one.name, one.name) for one in measures], field="measures")
    if not callable(study.claims):
        study.judged({})


def _require_known(study: Study, request: Request, sized: bool) -> None:
    """Check that arms and sizes set keys that there are; of a packaged task's sizes each may name another one."""
    of_runs = EVERY_KEY | request.task_keys
    of_sizes = of_runs | request.own.keys() - _ARGUMENTS
    there = study.sizes if not study.is_named else {request.size: study.sizes[request.size]} if sized else {}
    sizes = {f"size {name}": size.keys for name, size in there.items()}
    arms = {f"arm {arm.name}": arm.keys for arm in study.arms if arm.on is None and arm.experiment is None}
    for where, keys, known in (
        *((where, keys, of_runs) for where, keys in arms.items()),
        *((where, keys, of_sizes) for where, keys in [("keys", study.keys if there else {}), *sizes.items()]),
    ):
        for key, value in keys.items():
            if key in _ARGUMENTS:
                what, fix = "this key is no arm's: every arm is run with the same seeds", "Size(seeds=(1, 2, 3))"
                raise ConfigError(f"{where}: {what}", field=key, value=value, fix=fix)
            if key not in known and not key.startswith(study.prefixes):
                raise unknown_key(key, str(value), known | _ARGUMENTS, study.prefixes).located_at(where)
            several = value.values() if isinstance(value, Mapping) else [value]
            if key != RATE and any(isinstance(one, list | tuple) for one in several):
                what = f"{where}: a learning rate alone may have several values, of which one is chosen"
                raise ConfigError(what, field=key, value=value, allowed="one value, or one by size")
            if isinstance(value, Mapping) and (wrong := next(iter(value.keys() - study.sizes.keys()), None)):
                raise ConfigError(f"{where}: there is no such size", field=key, value=wrong, allowed=study.sizes)


def cells_of(study: Study, given: Mapping[str, str], open_source: OpenSource = no_source) -> StudyCells:
    """Return the runs of a study that no others decide on, as they are asked for."""
    return first_cells(*planned(study, given, open_source))


def packaged_cells(study: Study, given: Mapping[str, str], open_source: OpenSource) -> StudyCells:
    """Return the runs of a packaged study, whose learning rates are a small base's: another model needs its own."""
    missing = [key for key in [*_own_rates(study), *(_passes(study) & {RATE})] if key not in given]
    try:
        cells = cells_of(study, given, open_source)
        texts = [text for key, text in given.items() if key.partition(".")[0].endswith((RATE, "rates"))]
        rates = {float(rate) for text in texts for rate in text.split(",")}
        for arm in cells.arms:
            if missing and not rates.issuperset(arm.rates):
                require_own_rates(make_plan(arm.experiment, {**cells.shared, **arm.keys}))
    except NoRateError as error:
        small = f"at={SMALL}; or " if study.task is None or study.is_named or SMALL in study.sizes else ""
        raise error.with_fix(f"{small}{' '.join(f'{key}=...' for key in missing)} of your own") from None
    return cells


def _own_rates(study: Study) -> list[str]:
    return [key.name for key in study.own if key.name.endswith("rates")]


def _passes(study: Study) -> frozenset[str]:
    """Return the keys of a run that a study takes beside the usual ones: the rate too, if it has no key for rates."""
    return study.passes if study.task is None or _own_rates(study) else study.passes | {RATE}


def first_cells(study: Study, request: Request) -> StudyCells:
    """Return the runs of a planned study that no others decide on."""
    arms, own = [arm for arm in _arms(study, request.size) if arm.on is None], request.own
    seeds = request.given.get("seeds", ",".join(map(str, study.sizes[request.size].seeds)))
    reported, tuning_seed = seeds_apart(seeds, own["tuning_seed"], least=study.fewest_seeds)
    of_all = frozenset(request.shared) - request.task_keys
    for arm in arms:
        of_all = of_all if arm.experiment is not None else of_all & TASK_KINDS[_kind(arm)].known
    shared = {key: one for key, one in request.shared.items() if key in of_all}
    return StudyCells(
        name=study.name,
        question=study.question,
        arms=tuple(_arm(request, arm, arm.keys) for arm in arms if not arm.is_staged),
        shared={**shared, "quiet": "true"},
        out=Path(own["out"] or _out(study, request)),
        seeds=reported,
        tuning_seed=tuning_seed,
        dry_run=truth("dry_run", own["dry_run"]),
        cluster=cluster_of(request.given),
    )


def _out(study: Study, request: Request) -> str:
    task = request.own[_TASK]
    plain = Path(task).stem if task.endswith(".py") else task.replace(":", "-").replace("/", "-")
    return "-".join(filter(None, [f"runs/{study.name.replace('/', '-')}", plain, request.given.get(GENERATOR.name)]))


def later_arms(
    study: Study, request: Request, rates: Mapping[str, float], computed: Mapping[str, Mapping[str, Value | BySeed]]
) -> tuple[StudyArm, ...]:
    """Return the arms of a planned study that others decide on, by the rates they chose and what `after` computed."""
    found: list[StudyArm] = []
    for arm in _arms(study, request.size):
        if arm.is_staged:
            require_known("arm with a learning rate of its own", [(n, "arms") for n in _tuned(arm)], list(rates))
            own = {key: rates[one.arm] if isinstance(one, Tuned) else one for key, one in arm.keys.items()}
            by_seed: dict[int, dict[str, str]] = {}
            for key, value in computed.get(arm.name, {}).items():
                if isinstance(value, Mapping):
                    for seed, text in value.items():
                        by_seed.setdefault(seed, {})[key] = text
                else:
                    own[key] = value
            found.append(replace(_arm(request, arm, own), by_seed=by_seed))
    return tuple(found)


def _arms(study: Study, size: str) -> list[Arm]:
    return [arm for arm in study.arms if arm.name not in study.sizes[size].without]


def _tuned(arm: Arm) -> list[str]:
    return [one.arm for one in arm.keys.values() if isinstance(one, Tuned)]


def _kind(arm: Arm) -> Kind:
    given = str(arm.keys.get("kind", Kind.TASK.value))
    require_known("kind of run", [(given, "kind")], [kind.value for kind in TASK_KINDS])
    return Kind(given)


def _arm(request: Request, arm: Arm, keys: Mapping[str, ArmValue]) -> StudyArm:
    own = _texts(keys, request.size)
    if arm.experiment is not None:
        return StudyArm(arm.name, arm.label, arm.experiment, _rates(keys.get(RATE), request.size), own)
    kind, rates = _kind(arm), _rates(keys.get(RATE), request.size) or _rates(request.rate, request.size)
    known = TASK_KINDS[kind].known | request.task_keys
    every = {**{key: value for key, value in request.shared.items() if key in known}, **own}
    if kind is Kind.TASK_SFT and "groups_per_batch" in request.shared and "batch_size" not in own:
        every["batch_size"] = request.shared["groups_per_batch"]  # it looks at as many items a step as one that is paid
    made = _of_task(request, arm, arm.name, every, rates)
    if len(rates) < 2:
        return made
    part = _EVALUATE if _EVALUATE in request.task_keys else "examined"
    apart = {**every, part: Examined.VALIDATION.value}
    return replace(made, tuned_as=_of_task(request, arm, f"{arm.name}-validation", apart, rates))


def _of_task(request: Request, arm: Arm, name: str, every: Mapping[str, str], rates: tuple[float, ...]) -> StudyArm:
    source, task_keys = request.source, request.task_keys
    assert source is not None, "the study is of a task"
    assert source.found_at is not None, "the task can be opened again"
    rated = {RATE: repr(rates[0])} if rates else {}
    return StudyArm(
        name=name,
        label=arm.label,
        experiment=open_task(source, {**every, **rated}).experiment,
        rates=rates,
        keys={key: value for key, value in every.items() if key not in task_keys},
        found_at=source.found_at,
        task_keys={key: value for key, value in every.items() if key in task_keys},
    )


def _rates(value: ArmValue | None, size: str) -> tuple[float, ...]:
    found = value.get(size) if isinstance(value, Mapping) else value
    if found is None:
        return ()
    assert not isinstance(found, Tuned), "a rate that another arm chose is put in its place before"
    several = (
        numbers(RATE, found, float) if isinstance(found, str) else found if isinstance(found, Sequence) else [found]
    )
    if not several:
        raise ConfigError("there is no learning rate", field=RATE, value=found, allowed="one or more")
    return tuple(sorted({float(one) for one in several}))


def _texts(keys: Mapping[str, ArmValue], size: str, *, rated: bool = False) -> dict[str, str]:
    """Return keys as they stand on a command line, without the learning rate where it is not `rated`."""
    found = {key: value.get(size) if isinstance(value, Mapping) else value for key, value in keys.items()}
    return {
        key: shown_value(value)
        for key, value in found.items()
        if (rated or key != RATE) and isinstance(value, str | int | float | bool)
    }


def own_base(plan: Plan) -> str:
    """Return what tells a task's base from another's; empty for papers, which a study's runs share."""
    split = getattr(plan.frame, "split_seed", None)
    return "" if split is None else f"{plan.experiment.name} {dict(plan.experiment.subject.own_keys)} {split}"
