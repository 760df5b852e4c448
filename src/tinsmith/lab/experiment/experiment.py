"""An experiment and its plan.

An experiment is a frozen value with a name, a question, a parent, and only what it changes. What it is follows from its
parents' deltas, from the root down. Its identity is the SHA-256 of everything that decides its results; the same
`name@version` with another identity is an error that a test finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.at import At, RunFrame
from tinsmith.lab.experiment.key_text import ENGINE, Circumstances, Keys, Value
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import CommonSettings, written
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.deviation import Deviation
from tinsmith.types.fingerprints import left_out
from tinsmith.types.gradient import GradientUnit

if TYPE_CHECKING:
    from tinsmith.lab.user_task.entry import UserTaskEntry

Values = Mapping[str, Value]

REWARD_PREFIX: Final = "reward."


@dataclass(frozen=True, slots=True, kw_only=True)
class KindEntry:
    """One way to train on a subject: its keys, and what they are where."""

    keys: Keys
    values: Mapping[At, Values]
    """By place, unless an experiment or the command line says otherwise; where there are none, it does not run."""
    forced: Mapping[At, Values] = field(default_factory=dict[At, Values])
    """By place, whatever an experiment says; the command line still goes before it."""
    named_reward: bool = False
    """Whether its reward is one of REWARDS, with settings of its own under `reward.`."""

    @property
    def places(self) -> tuple[At, ...]:
        """Where it can run."""
        return tuple(at for at in At if at in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One rung: `family/rung@version`."""

    name: str
    question: str
    """What it was run to find out, in a sentence."""
    subject: UserTaskEntry
    parent: Experiment | None
    """The one it differs from."""
    delta: Values
    """What it changes in its parent, by key; the root's are all its own."""
    version: int = 1
    at_nano: Values = field(default_factory=dict[str, Value])
    """Its own numbers where it runs with the nano base (`at=nano`); not inherited."""
    at_small: Values = field(default_factory=dict[str, Value])
    """Its own numbers where it runs with a small pretrained model (`at=small`); not inherited."""
    at_seed: Values = field(default_factory=dict[str, Value])
    """The same at the source notes' size (`at=seed`)."""

    def __post_init__(self) -> None:
        for name in ("delta", "at_nano", "at_small", "at_seed"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def own_at(self, at: At) -> Values:
        """Return its own numbers at a place."""
        return {At.NANO: self.at_nano, At.SMALL: self.at_small, At.SEED: self.at_seed}[at]

    @property
    def full_name(self) -> str:
        """Name and version."""
        return f"{self.name}@{self.version}"

    @property
    def inherited(self) -> dict[str, Value]:
        """What it and its ancestors change, the nearest one winning."""
        above = {} if self.parent is None else self.parent.inherited
        return {**above, **self.delta}

    @property
    def kind(self) -> Kind:
        """How it is trained, unless the command line says otherwise."""
        return Kind(self.inherited["kind"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An experiment with nothing left open but the model's and the data's fingerprints."""

    experiment: Experiment
    overrides: Values
    """What the command line changed: a derived experiment."""
    frame: RunFrame
    settings: CommonSettings
    reward_settings: Mapping[str, float]
    arithmetic: Arithmetic
    deviation: Deviation
    """What the embedded server is to do wrong, to see that the checks find it."""
    gradient_unit: GradientUnit
    """Of the embedded server."""
    circumstances: Circumstances
    asking: object | None = None
    """Circumstances of the subject's own."""
    own: Values = field(default_factory=dict[str, Value])
    """Keys of the task that an experiment with a name is on."""

    @property
    def entry(self) -> KindEntry:
        """The way it is trained."""
        return self.experiment.subject.kinds[self.frame.kind]

    @property
    def named(self) -> dict[str, object]:
        """Keys that are no loop's settings and tell runs apart; one that came later is left out at its default."""
        keys = self.entry.keys.own
        kept = {one.name: self.own[one.name] for one in keys if not one.later or self.own[one.name] != one.default}
        dropped = left_out(self.frame)
        return {**{key: value for key, value in asdict(self.frame).items() if key not in dropped}, **kept}

    def resolved(self) -> dict[str, object]:
        """Return every key that decides results, with its value."""
        known = self.entry.keys.known
        every = {**asdict(self.frame), **self.own, **written(self.settings)}
        values: dict[str, object] = {key: value for key, value in every.items() if key in known and key != "kind"}
        values |= {f"{REWARD_PREFIX}{key}": value for key, value in self.reward_settings.items()}
        return values | {key: getattr(self, key) for key in ENGINE}

    @property
    def title(self) -> str:
        """The name, and what was changed of it."""
        changed = " ".join(f"{key}={value}" for key, value in self.overrides.items())
        return f"{self.experiment.full_name} {changed}".strip()
