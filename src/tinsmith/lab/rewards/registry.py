"""The one table of rewards: every name, its objective and constants, and how it is made from settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final

from tinsmith.lab.labels.task import Task
from tinsmith.lab.rewards.objectives import (
    GMeanInfluence,
    InverseShare,
    MacroF1Influence,
    MinRecallDual,
    Objective,
    PriorMatching,
)
from tinsmith.lab.rewards.reward import Memory, Reward
from tinsmith.lab.rewards.terms import SOFT, STRONG, RewardTable
from tinsmith.lab.terms import LARGEST_REWARD
from tinsmith.types.errors import ConfigError

EXP5_WEIGHT: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardKind:
    """One entry of REWARDS."""

    about: str
    """What it pays for, in a sentence."""
    table: RewardTable
    objective: type[Objective] | None = None
    """Where the task term comes from; None: from the table."""
    first_weight: float = 1.0
    """Class weight of the first label; the others have 1. Only without an objective."""

    @property
    def settings(self) -> tuple[str, ...]:
        """The names `make_reward` takes."""
        if self.objective is None:
            return ("class_weights",)
        return (*(field.name for field in fields(self.objective)), *_MEMORY)


_MEMORY: Final = ("window", "prior", "first_shares")

REWARDS: Final[Mapping[str, RewardKind]] = MappingProxyType(
    {
        "soft": RewardKind(about="the contract, mildly the right label", table=SOFT),
        "strong": RewardKind(about="the right label, whatever its class", table=STRONG),
        "exp5": RewardKind(
            about="the right label, three times as much for the first class", table=STRONG, first_weight=EXP5_WEIGHT
        ),
        "macro_f1": RewardKind(about="what raises the macro-F1", table=STRONG, objective=MacroF1Influence),
        "prior_matching": RewardKind(
            about="the right label, and labels in their known shares", table=STRONG, objective=PriorMatching
        ),
        "dual": RewardKind(
            about="the right label, with every recall at least tau", table=STRONG, objective=MinRecallDual
        ),
        "g_mean": RewardKind(about="what raises the product of the recalls", table=STRONG, objective=GMeanInfluence),
        "inverse_share": RewardKind(
            about="the right label, more where it is said seldom", table=STRONG, objective=InverseShare
        ),
    }
)
"""Every reward by its name."""


def make_reward(name: str, task: Task, **settings: object) -> Reward:
    """Return a reward at its start.

    Settings of `soft`, `strong` and `exp5`: `class_weights`, a mapping from labels to the factor on the correct task
    term (labels left out: 1). Settings of the others: the fields of their objective, and `window`, `prior` and
    `first_shares` of Memory, the last two as mappings from every label to its share (default: all equal).

    >>> from tinsmith.lab.labels.task import TASKS
    >>> make_reward("exp5", TASKS["disruption"]).per_label()[0].tolist()
    [3.05, -0.55, -0.55]
    """
    if name not in REWARDS:
        raise ConfigError("there is no such reward", field="reward", value=name, allowed=", ".join(REWARDS))
    kind = REWARDS[name]
    for setting in settings:
        if setting not in kind.settings:
            raise ConfigError(
                f"the reward {name} has no such setting",
                field=setting,
                value=settings[setting],
                allowed=", ".join(kind.settings),
            )
    labels = task.labels
    if kind.objective is None:
        return Reward(name, labels, kind.table, weights=_weights(kind, labels, settings))
    numbers = {key: _number(key, value) for key, value in settings.items() if key not in _MEMORY}
    equal = (1.0 / len(labels),) * len(labels)
    memory = Memory(
        prior=_shares("prior", settings, labels, equal, positive=True),
        first_shares=_shares("first_shares", settings, labels, equal, positive=False),
        window=_number("window", settings.get("window", 512.0)),
    )
    return Reward(name, labels, kind.table, objective=kind.objective(**numbers), memory=memory)


def _weights(kind: RewardKind, labels: Sequence[str], settings: Mapping[str, object]) -> tuple[float, ...]:
    weights = {label: 1.0 for label in labels} | {labels[0]: kind.first_weight}
    if "class_weights" in settings:
        weights = {label: 1.0 for label in labels}
        weights |= _by_label("class_weights", settings["class_weights"], labels)
    return tuple(weights[label] for label in labels)


def _shares(
    key: str, settings: Mapping[str, object], labels: Sequence[str], default: tuple[float, ...], *, positive: bool
) -> tuple[float, ...]:
    if key not in settings:
        return default
    given = _by_label(key, settings[key], labels)
    shares = tuple(given.get(label, -1.0) for label in labels)
    least = min(shares)
    if least < 0.0 or (positive and least == 0.0) or abs(math.fsum(shares) - 1.0) > 1e-6:
        raise ConfigError(
            "the shares must name every label and sum to 1",
            field=key,
            value=given,
            allowed=f"{'> 0' if positive else '>= 0'} for each of {', '.join(labels)}",
        )
    return shares


def _by_label(key: str, value: object, labels: Sequence[str]) -> dict[str, float]:
    if not isinstance(value, Mapping) or not set(value) <= set(labels):
        raise ConfigError(
            "this needs one number for every label",
            field=key,
            value=value,
            allowed=f"a mapping from labels ({', '.join(labels)}) to numbers",
        )
    return {str(label): _number(f"{key}.{label}", number) for label, number in value.items()}


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST_REWARD:
        raise ConfigError("a finite number", field=key, value=value, allowed=f"up to {LARGEST_REWARD:g}")
    return float(value)
