"""The adversarial pair as environments of the Tinker cookbook: `DebateDataset` gives its loop our conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tinker

from tinsmith.lab.cookbook.types import (
    StepResult,
)
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.task import TASKS, Task
from tinsmith.renderers.renderer import Renderer
from tinsmith.studies.debate.opponent import Opponent
from tinsmith.studies.debate.seed_env import AdversarialDisruptionEnv
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive


class DebateEnv:
    """One paper under challenge, as the cookbook's `Env`; the environment must have a renderer."""

    def __init__(self, debate: AdversarialDisruptionEnv) -> None:
        self.debate = debate

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[int]]:
        """Return the prompt, and what ends a reply to it.

        Raises:
            DataError: the prompt leaks.
            InputError: it was used before.
        """
        observation, stop = await self.debate.initial_observation()
        return _model_input(observation.tokens), list(stop)

    async def step(
        self, action: list[int], *, extra: Mapping[str, object] | None = None
    ) -> StepResult:
        """Take a reply: B's challenge follows the first, the whole reward the second.

        Raises:
            DataError: the challenge leaks.
            InputError: no reply is due.
        """
        del extra  # a reply that was cut off is known by its tokens
        found = await self.debate.step(action)
        return StepResult(
            reward=found.reward,
            episode_done=found.episode_done,
            next_observation=_model_input(found.next_observation.tokens),
            next_stop_condition=list(found.next_stop_condition),
            metrics=dict(found.metrics),
        )


def _model_input(tokens: Sequence[int] | None) -> tinker.ModelInput:
    if tokens is None:
        raise ConfigError(
            "a loop in tokens needs an environment with a renderer",
            field="renderer",
            fix="AdversarialDisruptionEnv(paper, renderer=renderer_for(tokenizer))",
        )
    return tinker.ModelInput.from_ints(list(tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateGroup:
    """Several conversations about one paper, as the cookbook's `EnvGroupBuilder`. All meet the same challenger."""

    item: Item
    renderer: Renderer
    count: int
    seed: int
    """Decides what the challenger argues for, and in which words."""
    task: Task = TASKS["disruption"]
    reward: str = "adversarial/gated"
    script: str = "plain"
    opponent: Opponent | None = None
    """None: it follows the script, and knows the cues of the synthetic worlds."""

    async def make_envs(self) -> list[DebateEnv]:
        """Return new conversations."""
        return [
            DebateEnv(
                AdversarialDisruptionEnv(
                    self.item,
                    task=self.task,
                    opponent=self.opponent,
                    script=self.script,
                    reward=self.reward,
                    renderer=self.renderer,
                    seed=self.seed,
                )
            )
            for _ in range(self.count)
        ]

    async def compute_group_rewards(
        self, trajectory_group: list[object], env_group: Sequence[object]
    ) -> list[tuple[float, dict[str, float | int]]]:
        """Return nothing on top: the last step had the whole reward."""
        del env_group
        return [(0.0, {}) for _ in trajectory_group]

    def logging_tags(self) -> list[str]:
        """Return what metrics are grouped by."""
        return [self.reward]

    async def cleanup(self) -> None:
        """Let go of nothing: nothing is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateDataset:
    """Papers under challenge, as the cookbook's `RLDataset`: in the order they are given, each once."""

    items: Sequence[Item]
    renderer: Renderer
    groups_per_batch: int
    group_size: int
    seed: int = 0
    task: Task = TASKS["disruption"]
    reward: str = "adversarial/gated"
    script: str = "plain"
    opponent: Opponent | None = None

    def get_batch(self, index: int) -> list[DebateGroup]:
        """Return the groups of one batch; whatever their challengers draw comes from the seed and the place."""
        first = index * self.groups_per_batch
        return [
            DebateGroup(
                item=item,
                renderer=self.renderer,
                count=self.group_size,
                seed=derive(self.seed, "rollout", index, "group", place),
                task=self.task,
                reward=self.reward,
                script=self.script,
                opponent=self.opponent,
            )
            for place, item in enumerate(self.items[first : first + self.groups_per_batch])
        ]

    def __len__(self) -> int:
        """Return how many whole batches there are."""
        return len(self.items) // self.groups_per_batch
