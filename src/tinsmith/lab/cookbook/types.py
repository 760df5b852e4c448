"""The Tinker cookbook's environment, group of environments and dataset: the shapes, without the package.

The names and fields are those of `tinker_cookbook.rl.types` and `completers`, so that objects of theirs pass here and
objects of ours pass there. Nothing of the cookbook is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import tinker

Stop = list[int] | list[str]  # Tokens or texts that end a reply.

Numbers = Mapping[str, float | int]


class StepLike(Protocol):
    """Outcome of a step of an environment."""

    @property
    def reward(self) -> float:
        """Reward of this step."""
        ...

    @property
    def episode_done(self) -> bool:
        """True if the conversation is over."""
        ...

    @property
    def next_observation(self) -> tinker.ModelInput:
        """Whole conversation so far; its prefix is everything observed and sampled before."""
        ...

    @property
    def next_stop_condition(self) -> Stop:
        """Stop condition of the next reply."""
        ...

    @property
    def metrics(self) -> Numbers:
        """Metrics to report."""
        ...


@runtime_checkable
class Env(Protocol):
    """Environment of one conversation; used once. `step` may take `extra`, a mapping with `stop_reason`."""

    async def initial_observation(self) -> object:
        """Return the first prompt and its stop condition; anything else means that the prompt does not fit."""
        ...

    async def step(self, action: list[int]) -> StepLike:
        """Take a reply with its stop token."""
        ...


@runtime_checkable
class EnvGroupBuilder(Protocol):
    """Builder of one group's environments and, optionally, rewards. `logging_tags` and `cleanup` are optional."""

    async def make_envs(self) -> Sequence[Env]:
        """Return new environments about one item."""
        ...

    async def compute_group_rewards(
        self, trajectory_group: list[Any], env_group: Sequence[Any]
    ) -> Sequence[tuple[float, Numbers]]:
        """Return the reward to add for each environment, and metrics to report."""
        ...


class RLDataset(Protocol):
    """Batches of groups."""

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """Return the batch at an index."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Result of a step of our environments."""

    reward: float
    episode_done: bool
    next_observation: tinker.ModelInput
    next_stop_condition: list[int]
    metrics: dict[str, float | int] = field(default_factory=dict[str, float | int])
    logs: dict[str, str | int | float] = field(default_factory=dict[str, str | int | float])


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensWithLogprobs:
    """Reply in the form that a group's rewards read."""

    tokens: list[int]
    maybe_logprobs: list[float]
    stop_reason: str

    @property
    def logprobs(self) -> list[float]:
        """Log-probabilities of the tokens under the sampling policy."""
        return self.maybe_logprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One step: observation, reply and result."""

    ob: tinker.ModelInput
    ac: TokensWithLogprobs
    reward: float
    episode_done: bool
    metrics: Numbers
    logs: Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A whole conversation."""

    transitions: list[Transition]
    final_ob: tinker.ModelInput
    stop_reason: str | None = None
