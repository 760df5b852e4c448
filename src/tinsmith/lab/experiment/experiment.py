"""An experiment and its plan: every key resolved, before any model or paper is there.

An experiment is a frozen value with a name, a question, a parent, and only what it changes. What it is follows from its
parents' deltas, from the root down. Its identity is the SHA-256 of everything that decides its results; the same
`name@version` with another identity is an error that a test finds.

Keys come from, later ones winning: the defaults of the settings, the place it runs at (`at=nano`, `at=small` or
`at=seed`), the experiment's ancestors and itself, what the place cannot do otherwise, and the command line. Keys that
only say where and how fast to run are circumstances, and are kept apart.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tinsmith.lab.experiment.key_text import (
    At,
    Circumstances,
    EngineKeys,
    KindEntry,
    RunFrame,
    Value,
    Values,
    converted,
    field_kinds,
    folder_name,
    shown_value,
    unknown_key,
)
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.settings import CommonSettings, RlSettings, SftSettings, SparseSettings, identity_settings, written
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.arithmetic import Arithmetic, supported, supported_words
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import left_out, sha256_of

if TYPE_CHECKING:
    from tinsmith.lab.user_task.entry import UserTaskEntry


REWARD_PREFIX: Final = "reward."


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Experiment `family/rung@version`."""

    name: str
    question: str  # What it was run to find out, in a sentence.
    subject: UserTaskEntry
    parent: Experiment | None  # The one it differs from.
    delta: Values  # What it changes in its parent, by key; the root's are all its own.
    version: int = 1
    sizes: Mapping[At, Values] = field(default_factory=dict[At, Values])
    """Its own numbers by size of model; not inherited."""

    @property
    def full_name(self) -> str:
        """Name and version."""
        return f"{self.name}@{self.version}"

    @property
    def inherited(self) -> dict[str, Value]:
        """Changes by the experiment and its ancestors; the nearest takes precedence."""
        above = {} if self.parent is None else self.parent.inherited
        return {**above, **self.delta}

    @property
    def kind(self) -> Kind:
        """Default kind of training."""
        return Kind(self.inherited["kind"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Resolved experiment; only the fingerprints of model and data are missing."""

    experiment: Experiment
    overrides: Values  # What the command line changed: a derived experiment.
    frame: RunFrame
    settings: CommonSettings
    reward_settings: Mapping[str, float]
    engine: EngineKeys
    circumstances: Circumstances
    asking: object | None = None  # Circumstances of the subject's own.
    own: Values = field(default_factory=dict[str, Value])  # Keys of the task that an experiment with a name is on.

    @property
    def entry(self) -> KindEntry:
        """Kind of training, with its keys."""
        return self.experiment.subject.kinds[self.frame.kind]

    @property
    def named(self) -> dict[str, object]:
        """Keys beyond the loop's settings that distinguish runs; a newer key is left out at its default."""
        own = self.entry.own
        own_keys = {one.name: self.own[one.name] for one in own if not one.later or self.own[one.name] != one.default}
        dropped = left_out(self.frame)
        return {**{key: value for key, value in asdict(self.frame).items() if key not in dropped}, **own_keys}

    def resolved(self) -> dict[str, object]:
        """Return every key that decides results, with its value."""
        known = self.entry.known
        every = {**asdict(self.frame), **self.own, **written(self.settings)}
        values: dict[str, object] = {key: value for key, value in every.items() if key in known and key != "kind"}
        values |= {f"{REWARD_PREFIX}{key}": value for key, value in self.reward_settings.items()}
        return values | asdict(self.engine)

    @property
    def title(self) -> str:
        """Name with its overrides."""
        changed = " ".join(f"{key}={value}" for key, value in self.overrides.items())
        return f"{self.experiment.full_name} {changed}".strip()


T = TypeVar("T")


def make_plan(experiment: Experiment, overrides: Mapping[str, str]) -> Plan:
    """Resolve an experiment with `key=value` overrides of a command line."""
    kind = kind_of(experiment, overrides)
    entry = experiment.subject.kinds[kind]
    _require_known(overrides, experiment, kind)
    _require_own_server(overrides)
    at = cast(At, converted("at", overrides.get("at", At.NANO.value), At))
    values = {**defaults(experiment, kind, at), **overrides}
    rewards = {
        key.removeprefix(REWARD_PREFIX): cast(float, converted(key, value, float))
        for key, value in overrides.items()
        if key.startswith(REWARD_PREFIX)
    }
    changed = {
        key: cast(Value, converted(key, value, entry.kinds.get(key, str)))
        for key, value in sorted(overrides.items())
        if key not in entry.circumstances
    }
    engine, where = _filled(EngineKeys, overrides), _filled(Circumstances, values)
    _require_device(engine.arithmetic, where)
    own = {key.name: converted(key.name, values.get(key.name, key.default), key.kind) for key in entry.own}
    plan = Plan(
        experiment=experiment,
        overrides=MappingProxyType(changed),
        frame=_filled(entry.frame, values),
        settings=_filled(entry.loop, values),
        reward_settings=MappingProxyType(rewards),
        engine=engine,
        circumstances=where,
        asking=None if entry.asking is None else _filled(entry.asking, values),
        own=MappingProxyType(cast("dict[str, Value]", own)),
    )
    if plan.settings.adapter is AdapterKind.FULL and "lora_rank" in overrides:
        raise ConfigError("full trains every weight, and has no rank", field="lora_rank", value=overrides["lora_rank"])
    return experiment.subject.check(plan)  # what is refused is told before anything is built


def kind_of(experiment: Experiment, overrides: Mapping[str, str]) -> Kind:
    """Return the kind of an experiment."""
    own, kinds = experiment.kind, experiment.subject.kinds
    kind = cast(Kind, converted("kind", overrides.get("kind", own.value), Kind))
    if kind not in kinds:
        what = f"this experiment is of kind {own}; another kind cannot answer its question"
        allowed = ", ".join(each for each in Kind if each in kinds)
        raise ConfigError(what, field="kind", value=kind.value, allowed=allowed)
    return kind


def defaults(experiment: Experiment, kind: Kind, at: At) -> dict[str, object]:
    """Return the defaults that a size, the ancestors and the experiment itself determine."""
    entry = experiment.subject.kinds[kind]
    if at not in entry.values:
        what = f"{kind} has no settings for this size of model"
        raise ConfigError(what, field="at", value=at.value, allowed=", ".join(entry.places))
    return {**entry.values[at], **experiment.inherited, **experiment.sizes.get(at, {}), **entry.forced.get(at, {})}


def with_default_log_path(plan: Plan) -> Plan:
    """Return the plan with its folder: by default `runs/FAMILY-RUNG[-CHANGES]` here."""
    if plan.circumstances.log_path is not None:
        return plan
    changes = [f"{key}={value}" for key, value in plan.overrides.items()]
    name = folder_name(plan.experiment.name.replace("/", "-"), changes)
    where = dataclasses.replace(plan.circumstances, log_path=Path("runs") / name)
    return dataclasses.replace(plan, circumstances=where)


def _require_own_server(overrides: Mapping[str, str]) -> None:
    if "base_url" in overrides and overrides.get("deviation", "none") != Deviation.NONE:
        what = "deviation is for the run's own server, not for one at base_url"
        fix = "leave base_url out, or start that server with `tinsmith serve --deviation`"
        raise ConfigError(what, field="deviation", value=overrides["deviation"], fix=fix)
    for key in ("gradient_unit", "hold", "workers", "shards", "unit_hashes"):
        if "base_url" in overrides and key in overrides:
            what = f"{key} is for the run's own server, not for one at base_url"
            fix = f"leave it out, and start that server with `tinsmith serve --{key.replace('_', '-')}`"
            raise ConfigError(what, field=key, value=overrides[key], fix=fix)


def _require_device(arithmetic: Arithmetic, where: Circumstances) -> None:
    """Check that kernels for the device exist; its presence is checked by the server."""
    if where.base_url is None and not supported(arithmetic, where.device):
        what, fix = f"arithmetic={arithmetic} has no kernels for this device", "device=cpu or device=cuda"
        raise ConfigError(what, field="device", value=where.device, allowed=supported_words(), fix=fix)
    if where.device != "cpu" and (where.workers or where.shards != 1):
        raise ConfigError("workers compute on CPU only", field="device", value=where.device, allowed="cpu with workers")


def _require_known(overrides: Mapping[str, str], experiment: Experiment, kind: Kind) -> None:
    kinds = experiment.subject.kinds
    entry, known = kinds[kind], kinds[kind].known
    in_others = {name for each in kinds.values() for name in each.known}
    in_loops = {each.name for loop in (RlSettings, SftSettings, SparseSettings) for each in fields(loop)}
    for key in overrides:
        if key in known or (entry.named_reward and key.startswith(REWARD_PREFIX)):
            continue
        is_unused = key in in_others | in_loops | entry.without or key.startswith("reward")
        raise unknown_key(key, overrides[key], known, unused_by=str(kind) if is_unused else "")


def _filled(cls: type[T], values: Mapping[str, object]) -> T:
    """Make a dataclass of the values of its fields, converted from text if necessary."""
    kinds = field_kinds(cls)
    arguments = {
        each.name: converted(each.name, values[each.name], kinds[each.name])
        for each in fields(cls)  # pyright: ignore[reportArgumentType]  # a dataclass
        if each.name in values
    }
    required = [
        each.name
        for each in fields(cls)  # pyright: ignore[reportArgumentType]
        if each.default is MISSING and each.default_factory is MISSING and each.name not in arguments
    ]
    if required:
        raise ConfigError("this key has no default here; give it a value", field=required[0], fix=f"{required[0]}=...")
    return cls(**arguments)


def plan_fingerprint(plan: Plan) -> str:
    """Return the SHA-256 of everything but papers and model that decides a plan's results, without circumstances."""
    # An experiment is without fault by itself, and trained in trees; only what was asked otherwise is part of its name.
    usual = asdict(EngineKeys())
    engine = {key: value for key, value in asdict(plan.engine).items() if key == "arithmetic" or value != usual[key]}
    return sha256_of(
        {
            "frame": plan.named,
            "settings": identity_settings(plan.settings),
            "reward_settings": dict(plan.reward_settings),
            **plan.experiment.subject.named(plan),
            **engine,
        }
    )


_WHY: Final[Mapping[At, str]] = {
    At.NANO: "what the nano base was made for",
    At.SMALL: "what a small chat model can answer",
}


def place_limits(plan: Plan) -> list[str]:
    """Return the changes that a size makes to an experiment, in sentences; empty if there are none.

    What the command line says holds at every place, and is not told.
    """
    at, written, where = plan.frame.at, plan.experiment.inherited, plan.circumstances
    limits = {
        key: value
        for key, value in plan.entry.forced.get(at, {}).items()
        if written.get(key, value) != value and key not in plan.overrides
    }
    if not limits:
        return []
    # The numbers are those of the base that is built here; another model may be named all the same.
    of_another = at is At.NANO and (where.base_url or where.model_name) is not None
    place = "here" if of_another else f"at={at}"
    why = "short prompts and answers, unless these keys are given" if of_another else _WHY[at]
    changes = [f"{key} is {shown_value(value)}, not {shown_value(written[key])}" for key, value in limits.items()]
    here = {"at": at.value}
    own = plan_fingerprint(make_plan(plan.experiment, here))
    twins = [
        one.full_name
        for one in plan.experiment.subject.experiments
        if one.name != plan.experiment.name
        and at in one.subject.kinds[one.kind].places
        and plan_fingerprint(make_plan(one, here)) == own
    ]
    same = f"{place}: this is {', '.join(twins)} under another name; at=seed tells them apart"
    return [f"{place}: {', '.join(changes)}: {why}", *([same] if twins else [])]


_FIELD: Final = re.compile(r'^ {4}(\w+): [^\n]*(?:\n {8}[^\n]*|\n {4}\))*\n {4}"""(.*?)"""', re.MULTILINE | re.DOTALL)
"""A field and the words below it. From the text: CPython 3.11 cannot make syntax trees in two threads at once."""
_CLASS: Final = r"^( *)class {}\b[^\n]*\n(?:\1[ )][^\n]*\n|\n)*"
"""A class with its body: as far as lines are indented more than its first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHelp:
    """Help on one key."""

    name: str
    values: Mapping[At, str]  # By place where the experiment can run; empty: none.
    words: str
    circumstance: bool  # Whether it only says where and how fast to run, and is no part of the identity.


def key_help(experiment: Experiment, overrides: Mapping[str, str] = MappingProxyType({})) -> list[KeyHelp]:
    """Return every key of an experiment, those that decide results first; `kind` of the overrides counts."""
    kind = kind_of(experiment, overrides)
    entry = experiment.subject.kinds[kind]
    kinds, places = entry.kinds, {at: defaults(experiment, kind, at) for at in entry.places}
    words = {name: text for part in entry.parts for name, text in words_of(part).items()}
    words |= {key.name: key.words for key in entry.own}
    usual: dict[str, object] = {each.name: default_of(each) for each in fields(entry.frame)}
    usual |= {key.name: key.default for key in entry.own}
    usual |= {each.name: default_of(each) for part in entry.parts[1:] for each in fields(part)}
    keys = [
        KeyHelp(
            name=name,
            values={at: shown_value(at if name == "at" else place.get(name, default)) for at, place in places.items()},
            words=_with_values(words.get(name, ""), kinds.get(name)),
            circumstance=name in entry.circumstances,
        )
        for name, default in usual.items()
        if name in entry.known and name != "kind"
    ]
    return sorted(keys, key=lambda each: each.circumstance)


def _with_values(words: str, kind: object) -> str:
    if not isinstance(kind, type) or not issubclass(kind, enum.Enum):
        return words
    values = ", ".join(str(member.value) for member in kind)
    return f"{words} One of: {values}.".strip()


def words_of(part: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass and its bases."""
    return {
        name: " ".join(words.split())
        for each in reversed(part.__mro__)
        if each is not object
        for name, words in _FIELD.findall(textwrap.dedent(_source(each)))
    }


def _source(part: type) -> str:
    """Return the source of a class; `inspect.getsource` would parse the module to find it."""
    text = inspect.getsource(sys.modules[part.__module__])
    found = re.search(_CLASS.format(part.__name__), text, re.MULTILINE)
    return found[0] if found else ""


def default_of(field: Field[Any]) -> object:
    """Return a field's default; None if it has none."""
    return None if field.default is MISSING else field.default
