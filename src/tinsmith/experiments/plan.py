"""A plan: every key of an experiment resolved, before any model or paper is there.

Keys come from, later ones winning: the defaults of the settings, the place it runs at (`at=nano` or `at=seed`), the
experiment's ancestors and itself, what the place cannot do otherwise, and the command line. Keys that only say where
and how fast to run are circumstances, and are kept apart.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar, cast, get_type_hints

from tinsmith.experiments.experiment import Experiment, Value
from tinsmith.experiments.registry import lineage
from tinsmith.tasks.reward_registry import make_reward
from tinsmith.tasks.task import Task, make_task
from tinsmith.training.run_folder import IfExists
from tinsmith.training.settings import CommonSettings, RlSettings, SftSettings
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError

T = TypeVar("T")


class Kind(enum.StrEnum):
    """Which loop."""

    RL = "rl"
    SFT = "sft"


class At(enum.StrEnum):
    """For which size of model the numbers are."""

    NANO = "nano"
    """The base that is built here, from scratch."""
    SEED = "seed"
    """The seeds' own: Llama-3.1-8B-Instruct on a hosted service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The keys of an experiment that are no loop's settings."""

    kind: Kind = Kind.RL
    at: At = At.NANO
    task: str = "disruption"
    prompt: str = "plain"
    contract: str = "four_key"
    with_metadata: bool = True
    """Whether the prompt tells year and citations, which leak the label."""
    reward: str = "soft"
    shuffle_labels: bool = False
    """Shuffle the training labels among the papers: the negative control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Where and how fast: never part of an identity."""

    model_name: str | None = None
    """A folder, or a name that the server at base_url serves; None: the nano base, built and cached."""
    data: Path | None = None
    """A slice folder; None: the synthetic one, built and cached."""
    log_path: Path | None = None
    base_url: str | None = None
    device: str = "cpu"
    threads: int = 0
    """0: as the server finds."""
    micro_batch: int = 0
    """Most datums that an embedded server computes at once; 0: as many as memory allows."""
    behavior_if_log_dir_exists: IfExists = IfExists.RAISE
    stop_after: int = 0
    """Stop after this many steps, as if interrupted there: resumed, it goes on as ever. 0: run to the end."""
    dry_run: bool = False
    wandb_project: str | None = None
    wandb_name: str | None = None
    trackio_project: str | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An experiment with nothing left open but the model's and the papers' fingerprints."""

    experiment: Experiment
    overrides: Mapping[str, Value]
    """What the command line changed: a derived experiment."""
    frame: Frame
    settings: CommonSettings
    reward_settings: Mapping[str, float]
    arithmetic: Arithmetic
    deviation: Deviation
    """What the embedded server is to do wrong, to see that the checks find it."""
    circumstances: Circumstances
    task: Task = field(repr=False)

    @property
    def title(self) -> str:
        """The name, and what was changed of it."""
        changed = " ".join(f"{key}={value}" for key, value in self.overrides.items())
        return f"{self.experiment.full_name} {changed}".strip()


NANO: Final[Mapping[Kind, Mapping[str, Value]]] = MappingProxyType(
    {
        Kind.RL: MappingProxyType(
            {
                "steps": 100,
                "learning_rate": 1.5e-3,
                "lora_rank": 16,
                "group_size": 8,
                "groups_per_batch": 16,
                "eval_every": 25,
                "save_every": 25,
                "eval_items": 200,
            }
        ),
        Kind.SFT: MappingProxyType(
            {
                "steps": 120,
                "learning_rate": 2e-3,
                "lora_rank": 16,
                "batch_size": 32,
                "eval_every": 60,
                "save_every": 60,
                "eval_items": 200,
            }
        ),
    }
)
"""Values of `at=nano`: what two cores do in about a minute."""

NANO_ONLY: Final[Mapping[str, Value]] = MappingProxyType({"prompt": "brief", "max_tokens": 48})
"""What the nano base needs whatever the rung says: it has read the brief prompt only."""

SEED: Final[Mapping[Kind, Mapping[str, Value]]] = MappingProxyType(
    {
        Kind.RL: MappingProxyType(
            {
                "steps": 313,
                "learning_rate": 8e-6,
                "lora_rank": 32,
                "group_size": 2,
                "groups_per_batch": 16,
                "temperature": 0.3,
                "max_tokens": 256,
                "eval_every": 250,
                "save_every": 250,
                "eval_items": 500,
                "train_items": 5000,
            }
        ),
        Kind.SFT: MappingProxyType(
            {
                "steps": 313,
                "learning_rate": 1e-4,
                "lora_rank": 32,
                "batch_size": 16,
                "temperature": 0.3,
                "max_tokens": 256,
                "eval_every": 250,
                "save_every": 250,
                "eval_items": 500,
                "train_items": 5000,
            }
        ),
    }
)
"""Values of `at=seed`: 5,000 papers once, batch 16, group 2, learning rate 8e-6, temperature 0.3, no KL."""

REWARD_PREFIX = "reward."

_ENGINE: Final[Mapping[str, enum.Enum]] = MappingProxyType(
    {"arithmetic": Arithmetic.CANONICAL, "deviation": Deviation.NONE}
)
"""Keys of the engine that decide results, and their defaults."""


def make_plan(experiment: Experiment, overrides: Mapping[str, str]) -> Plan:
    """Resolve an experiment with `key=value` overrides as they stand on a command line.

    Raises:
        ConfigError: an unknown or unused key, or a value that is not allowed.
    """
    ancestors = lineage(experiment)
    delta = {key: value for one in ancestors for key, value in one.delta.items()}
    kind = cast(Kind, _convert("kind", overrides.get("kind", delta["kind"]), Kind))
    loop = RlSettings if kind is Kind.RL else SftSettings
    _require_known(overrides, kind, loop)
    _require_own_server(overrides)
    at = _convert("at", overrides.get("at", At.NANO.value), At)
    place = (NANO if at is At.NANO else SEED)[kind]
    forced = NANO_ONLY if at is At.NANO else {}
    values: dict[str, object] = {**place, **delta, **forced, **overrides}
    frame = _filled(Frame, values)
    settings = _filled(loop, values)
    rewards = {
        key.removeprefix(REWARD_PREFIX): cast(float, _convert(key, value, float))
        for key, value in overrides.items()
        if key.startswith(REWARD_PREFIX)
    }
    changed = {
        key: cast(Value, _convert(key, value, _kinds(loop).get(key, str)))
        for key, value in sorted(overrides.items())
        if key not in _names(Circumstances)
    }
    task = make_task(
        frame.task,
        prompt=frame.prompt,
        contract=frame.contract,
        with_metadata=frame.with_metadata,
    )
    if kind is Kind.RL:
        make_reward(
            frame.reward, task, **rewards
        )  # what it refuses is told before anything is built
    return Plan(
        experiment=experiment,
        overrides=MappingProxyType(changed),
        frame=frame,
        settings=settings,
        reward_settings=MappingProxyType(rewards),
        arithmetic=cast(Arithmetic, _engine_value("arithmetic", overrides)),
        deviation=cast(Deviation, _engine_value("deviation", overrides)),
        circumstances=_filled(Circumstances, dict(overrides)),
        task=task,
    )


def with_default_log_path(plan: Plan) -> Plan:
    """Return the plan with a folder: `runs/FAMILY-RUNG[-CHANGES]` here, unless one was named."""
    if plan.circumstances.log_path is not None:
        return plan
    changes = [f"{key}={value}" for key, value in plan.overrides.items()]
    name = "-".join([plan.experiment.name.replace("/", "-"), *changes])
    safe = "".join(c if c.isalnum() or c in "-_=.," else "_" for c in name)
    where = dataclasses.replace(plan.circumstances, log_path=Path("runs") / safe)
    return dataclasses.replace(plan, circumstances=where)


def _names(cls: type) -> set[str]:
    return {each.name for each in fields(cls)}


def _kinds(loop: type) -> dict[str, object]:
    kinds = {**get_type_hints(Frame), **get_type_hints(loop), **get_type_hints(Circumstances)}
    return {**kinds, **{key: type(default) for key, default in _ENGINE.items()}}


def _engine_value(key: str, overrides: Mapping[str, str]) -> object:
    return _convert(key, overrides.get(key, _ENGINE[key].value), type(_ENGINE[key]))


def _require_own_server(overrides: Mapping[str, str]) -> None:
    if "base_url" in overrides and overrides.get("deviation", "none") != Deviation.NONE:
        raise ConfigError(
            "a server elsewhere is not told what to do wrong",
            field="deviation",
            value=overrides["deviation"],
            fix="leave base_url out, or start that server with `tinsmith serve --deviation`",
        )


def _require_known(overrides: Mapping[str, str], kind: Kind, loop: type) -> None:
    known = {*_names(Frame), *_names(loop), *_names(Circumstances), *_ENGINE}
    if kind is Kind.SFT:
        known.discard("reward")
    for key in overrides:
        if key in known or (kind is Kind.RL and key.startswith(REWARD_PREFIX)):
            continue
        other = _names(SftSettings if kind is Kind.RL else RlSettings)
        near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.5)
        unused = key in other or key.startswith("reward")
        raise ConfigError(
            f"{kind} does not use this key" if unused else "there is no such key",
            field=key,
            value=overrides[key],
            allowed=", ".join(sorted(known)),
            fix=f"perhaps {near[0]}" if near else None,
        )


def _filled(cls: type[T], values: Mapping[str, object]) -> T:
    """Make a dataclass of the values it has fields for, converted from text where they are text."""
    kinds = get_type_hints(cls)
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
        raise ConfigError(
            "this key has no default here", field=required[0], fix=f"{required[0]}=..."
        )
    return cls(**given)


def _convert(key: str, value: object, kind: object) -> object:
    """Turn a command line's text into a key's type.

    Raises:
        ConfigError: it is not one.
    """
    if not isinstance(value, str):
        return value
    if kind is bool:
        allowed = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() in allowed:
            return allowed[value.lower()]
        raise _bad(key, value, "true or false")
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        if value in [member.value for member in kind]:
            return kind(value)
        raise _bad(key, value, ", ".join(str(member.value) for member in kind))
    if kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            raise _bad(key, value, "a whole number" if kind is int else "a number") from None
    return Path(value) if kind == Path | None else value


def _bad(key: str, value: str, allowed: str) -> ConfigError:
    return ConfigError("this value cannot be read", field=key, value=value, allowed=allowed)
