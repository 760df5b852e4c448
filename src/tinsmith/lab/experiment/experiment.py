"""An experiment, its plan, and the subject that it is on: what the rest of the laboratory knows of each.

An experiment is a frozen value with a name, a question, a parent, and only what it changes. What it is follows from its
parents' deltas, from the root down. Its identity is the SHA-256 of everything that decides its results; the same
`name@version` with another identity is an error that a test finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.experiment.keys import ENGINE, Circumstances, Keys
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import CommonSettings
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.deviation import Deviation
from tinsmith.types.gradient import GradientUnit

if TYPE_CHECKING:
    from tinsmith.lab.experiment.materials import RunData, Say
    from tinsmith.lab.page.compared import Comparison
    from tinsmith.lab.runs.records import Run
    from tinsmith.pages.document import Document

Value = str | int | float | bool
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


class SubjectEntry(Protocol):
    """A subject as it is registered. Importing it imports nothing heavy; its methods import what they need."""

    @property
    def kinds(self) -> Mapping[Kind, KindEntry]:
        """The ways to train on it; those of one subject differ in their loop and not in their frame."""
        ...

    @property
    def experiments(self) -> Sequence[Experiment]:
        """Its experiments, ancestors before their children."""
        ...

    @property
    def alone(self) -> str | None:
        """Why its runs are compared with their like alone; None: they are compared with others on papers."""
        ...

    @property
    def found_by(self) -> str:
        """What of a manifest's circumstances says where a run's data were."""
        ...

    def check(self, plan: Plan) -> None:
        """Refuse what the types of keys do not.

        Raises:
            ConfigError, DataError: a value that is not allowed, or a file that is not there.
        """
        ...

    def named(self, frame: RunFrame) -> Mapping[str, object]:
        """Return what a frame stands for beside its values, such as a prompt's SHA-256."""
        ...

    def run_data(self, plan: Plan, say: Say) -> RunData:
        """Find or build what a plan is about.

        Raises:
            DataError: the data cannot be used.
        """
        ...

    def forecast(self, plan: Plan) -> Sequence[str]:
        """Return what a run would take: lines for a person; nothing is built.

        Raises:
            ConfigError, DataError: a value or the data cannot be used.
        """
        ...

    def page(self, run: Run) -> Document:
        """Return the page of a run."""
        ...

    def compare(self, folders: Sequence[Path], task: str | None) -> Comparison:
        """Compare runs on it, for one of their labels where they have several.

        Raises:
            DataError: a folder holds no run.
            ConfigError: they cannot be compared.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One rung: `family/rung@version`."""

    name: str
    question: str
    """What it was run to find out, in a sentence."""
    subject: SubjectEntry
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

    @property
    def entry(self) -> KindEntry:
        """The way it is trained."""
        return self.experiment.subject.kinds[self.frame.kind]

    def resolved(self) -> dict[str, object]:
        """Return every key that decides results, with its value."""
        known = self.entry.keys.known
        values: dict[str, object] = {
            each.name: getattr(part, each.name)
            for part in (self.frame, self.settings)
            for each in fields(part)
            if each.name in known and each.name != "kind"
        }
        values |= {f"{REWARD_PREFIX}{key}": value for key, value in self.reward_settings.items()}
        return values | {key: getattr(self, key) for key in ENGINE}

    @property
    def title(self) -> str:
        """The name, and what was changed of it."""
        changed = " ".join(f"{key}={value}" for key, value in self.overrides.items())
        return f"{self.experiment.full_name} {changed}".strip()
