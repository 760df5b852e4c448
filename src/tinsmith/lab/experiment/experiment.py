"""An experiment: a frozen value with a name, a question, a parent, and only what it changes.

What an experiment is follows from its parents' deltas, from the root down. Its identity is the SHA-256 of everything
that decides its results; the same `name@version` with another identity is an error that a test finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tinsmith.lab.experiment.at import At

Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One rung: `family/rung@version`."""

    name: str
    question: str
    """What it was run to find out, in a sentence."""
    parent: str | None
    """The name of the experiment it differs from."""
    delta: Mapping[str, Value]
    """What it changes in its parent, by key; the root's are all its own."""
    version: int = 1
    at_small: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """Its own numbers where it runs with a small pretrained model (`at=small`); not inherited."""
    at_seed: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """The same at the source notes' size (`at=seed`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", MappingProxyType(dict(self.delta)))
        object.__setattr__(self, "at_small", MappingProxyType(dict(self.at_small)))
        object.__setattr__(self, "at_seed", MappingProxyType(dict(self.at_seed)))

    def own_at(self, at: At) -> Mapping[str, Value]:
        """Return its own numbers at a place; those for the nano base are its delta's."""
        return {At.NANO: {}, At.SMALL: self.at_small, At.SEED: self.at_seed}[at]

    @property
    def full_name(self) -> str:
        """Name and version."""
        return f"{self.name}@{self.version}"
