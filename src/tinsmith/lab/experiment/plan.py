"""A plan: every key of an experiment resolved, before any model or paper is there.

Keys come from, later ones winning: the defaults of the settings, the place it runs at (`at=nano`, `at=small` or
`at=seed`), the experiment's ancestors and itself, what the place cannot do otherwise, and the command line. Keys that
only say where and how fast to run are circumstances, and are kept apart.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import REWARD_PREFIX, Experiment, Plan, Value
from tinsmith.lab.experiment.key_text import folder_name, truth, unknown_key, unreadable
from tinsmith.lab.experiment.keys import ENGINE, Circumstances, field_kinds
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings, SftSettings, SparseSettings
from tinsmith.types.arithmetic import Arithmetic, supported, supported_words
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError
from tinsmith.types.gradient import GradientUnit

T = TypeVar("T")


def make_plan(experiment: Experiment, overrides: Mapping[str, str]) -> Plan:
    """Resolve an experiment with `key=value` overrides as they stand on a command line."""
    kind = kind_of(experiment, overrides)
    entry = experiment.subject.kinds[kind]
    keys = entry.keys
    _require_known(overrides, experiment, kind)
    _require_own_server(overrides)
    values = {**defaults(experiment, kind, at_of(overrides)), **overrides}
    rewards = {
        key.removeprefix(REWARD_PREFIX): cast(float, _convert(key, value, float))
        for key, value in overrides.items()
        if key.startswith(REWARD_PREFIX)
    }
    changed = {
        key: cast(Value, _convert(key, value, keys.kinds.get(key, str)))
        for key, value in sorted(overrides.items())
        if key not in keys.circumstances
    }
    arithmetic = cast(Arithmetic, _engine_value("arithmetic", overrides))
    where = _filled(Circumstances, values)
    _require_device(arithmetic, where)
    own = {key.name: _convert(key.name, values.get(key.name, key.default), key.kind) for key in keys.own}
    plan = Plan(
        experiment=experiment,
        overrides=MappingProxyType(changed),
        frame=_filled(keys.frame, values),
        settings=_filled(keys.loop, values),
        reward_settings=MappingProxyType(rewards),
        arithmetic=arithmetic,
        deviation=cast(Deviation, _engine_value("deviation", overrides)),
        gradient_unit=cast(GradientUnit, _engine_value("gradient_unit", overrides)),
        circumstances=where,
        asking=None if keys.asking is None else _filled(keys.asking, values),
        own=MappingProxyType(cast("dict[str, Value]", own)),
    )
    return experiment.subject.check(plan)  # what is refused is told before anything is built


def kind_of(experiment: Experiment, overrides: Mapping[str, str]) -> Kind:
    """Return what kind of experiment it is."""
    own, kinds = experiment.kind, experiment.subject.kinds
    kind = cast(Kind, _convert("kind", overrides.get("kind", own.value), Kind))
    if kind not in kinds:
        raise ConfigError(
            f"this experiment is of kind {own}; another kind cannot answer its question",
            field="kind",
            value=kind.value,
            allowed=", ".join(each for each in Kind if each in kinds),
        )
    return kind


def at_of(overrides: Mapping[str, str]) -> At:
    """Return for which size of model the numbers are to be."""
    return cast(At, _convert("at", overrides.get("at", At.NANO.value), At))


def defaults(experiment: Experiment, kind: Kind, at: At) -> dict[str, object]:
    """Return what stands under keys that a place, the ancestors or the experiment itself decide."""
    entry = experiment.subject.kinds[kind]
    if at not in entry.values:
        raise ConfigError(
            f"there are no settings for {kind} at this place",
            field="at",
            value=at.value,
            allowed=", ".join(entry.places),
        )
    forced = entry.forced.get(at, {})
    return {**entry.values[at], **experiment.inherited, **experiment.own_at(at), **forced}


def with_default_log_path(plan: Plan) -> Plan:
    """Return the plan with a folder: `runs/FAMILY-RUNG[-CHANGES]` here, unless one was named."""
    if plan.circumstances.log_path is not None:
        return plan
    changes = [f"{key}={value}" for key, value in plan.overrides.items()]
    name = folder_name(plan.experiment.name.replace("/", "-"), changes)
    where = dataclasses.replace(plan.circumstances, log_path=Path("runs") / name)
    return dataclasses.replace(plan, circumstances=where)


def _engine_value(key: str, overrides: Mapping[str, str]) -> object:
    return _convert(key, overrides.get(key, ENGINE[key].value), type(ENGINE[key]))


def _require_own_server(overrides: Mapping[str, str]) -> None:
    if "base_url" in overrides and overrides.get("deviation", "none") != Deviation.NONE:
        raise ConfigError(
            "deviation is for the run's own server, not for one at base_url",
            field="deviation",
            value=overrides["deviation"],
            fix="leave base_url out, or start that server with `tinsmith serve --deviation`",
        )
    for key in ("gradient_unit", "hold", "workers", "shards"):
        if "base_url" in overrides and key in overrides:
            raise ConfigError(
                f"{key} is for the run's own server, not for one at base_url",
                field=key,
                value=overrides[key],
                fix=f"leave it out, and start that server with `tinsmith serve --{key.replace('_', '-')}`",
            )


def _require_device(arithmetic: Arithmetic, where: Circumstances) -> None:
    """Check that the server of its own could have such kernels; whether the device is here, the server says."""
    if where.base_url is None and not supported(arithmetic, where.device):
        raise ConfigError(
            f"arithmetic={arithmetic} has no kernels for this device",
            field="device",
            value=where.device,
            allowed=supported_words(),
        )
    if where.device != "cpu" and (where.workers or where.shards != 1):
        raise ConfigError("workers compute on CPU", field="device", value=where.device, allowed="cpu with workers")


def _require_known(overrides: Mapping[str, str], experiment: Experiment, kind: Kind) -> None:
    kinds = experiment.subject.kinds
    entry, known = kinds[kind], kinds[kind].keys.known
    in_others = {name for each in kinds.values() for name in each.keys.known}
    in_loops = {each.name for loop in (RlSettings, SftSettings, SparseSettings) for each in fields(loop)}
    for key in overrides:
        if key in known or (entry.named_reward and key.startswith(REWARD_PREFIX)):
            continue
        if key not in in_others | in_loops | entry.keys.without and not key.startswith("reward"):
            raise unknown_key(key, overrides[key], known)
        raise ConfigError(
            f"{kind} does not use this key", field=key, value=overrides[key], allowed=", ".join(sorted(known))
        )


def _filled(cls: type[T], values: Mapping[str, object]) -> T:
    """Make a dataclass of the values it has fields for, converted from text where they are text."""
    kinds = field_kinds(cls)
    given = {
        each.name: _convert(each.name, values[each.name], kinds[each.name])
        for each in fields(cls)  # pyright: ignore[reportArgumentType]  # a dataclass
        if each.name in values
    }
    required = [
        each.name
        for each in fields(cls)  # pyright: ignore[reportArgumentType]
        if each.default is MISSING and each.default_factory is MISSING and each.name not in given
    ]
    if required:
        raise ConfigError("this key has no default here and must be given", field=required[0], fix=f"{required[0]}=...")
    return cls(**given)


def _convert(key: str, value: object, kind: object) -> object:
    """Turn a command line's text into a key's type."""
    if not isinstance(value, str):
        return value
    if kind is bool:
        return truth(key, value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        if value in [member.value for member in kind]:
            return kind(value)
        raise unreadable(key, value, ", ".join(str(member.value) for member in kind))
    if kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            raise unreadable(key, value, "a whole number" if kind is int else "a number") from None
    return Path(value) if kind == Path | None else value
