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
        """Everything that was said so far; what was seen and sampled before is its prefix."""
        ...

    @property
    def next_stop_condition(self) -> Stop:
        """Stop condition of the next reply."""
        ...

    @property
    def metrics(self) -> Numbers:
        """Numbers to be told."""
        ...


@runtime_checkable
class Env(Protocol):
    """One conversation; used once. `step` may take `extra`, a mapping with `stop_reason`."""

    async def initial_observation(self) -> object:
        """Return the first prompt and what ends a reply to it; anything else says that there is no room for it."""
        ...

    async def step(self, action: list[int]) -> StepLike:
        """Take a reply, its stop token included."""
        ...


@runtime_checkable
class EnvGroupBuilder(Protocol):
    """Makes the environments of one group, and may reward them together. `logging_tags` and `cleanup` may be there."""

    async def make_envs(self) -> Sequence[Env]:
        """Return new environments, all about the same."""
        ...

    async def compute_group_rewards(
        self, trajectory_group: list[Any], env_group: Sequence[Any]
    ) -> Sequence[tuple[float, Numbers]]:
        """Return what is added to each one's rewards, and numbers to be told."""
        ...


class RLDataset(Protocol):
    """Batches of groups."""

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """Return one of them."""
        ...

    def __len__(self) -> int:
        """Return how many batches there are."""
        ...


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
    """A reply, as a group's rewards may look at it."""

    tokens: list[int]
    maybe_logprobs: list[float]
    stop_reason: str

    @property
    def logprobs(self) -> list[float]:
        """Of the tokens, under the policy that drew them."""
        return self.maybe_logprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One reply, what it replied to, and what came of it."""

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
