"""The conversation as the source notes write it, and as environments of the Tinker cookbook."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import tinker

from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.cookbook import types as cookbook
from tinsmith.lab.labels.paper import Item, items_of
from tinsmith.lab.labels.task import TASKS, Task
from tinsmith.renderers.renderer import Message, Renderer
from tinsmith.studies.debate.conversation import Debate
from tinsmith.studies.debate.opponent import Opponent, ScriptedOpponent
from tinsmith.studies.debate.rewards import debate_reward
from tinsmith.studies.debate.script import load_script
from tinsmith.types.errors import ConfigError, InputError
from tinsmith.types.seeds import derive

StopCondition = tuple[int, ...]
"""Tokens that end a reply; empty without a renderer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the model reads next."""

    messages: tuple[Message, ...]
    """What is new: the prompt, or the challenge; none after the end."""
    tokens: tuple[int, ...] | None = None
    """The whole conversation so far; what was seen and sampled before is its exact prefix. With a renderer only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What an action leads to."""

    reward: float
    """The whole reward at the end, 0 before."""
    episode_done: bool
    next_observation: Observation
    next_stop_condition: StopCondition
    metrics: Mapping[str, float]
    """The reward's terms at the end; empty before."""


class AdversarialDisruptionEnv(Debate):
    """One paper, two answers. Also an Environment (`first`, `reply`); use one of the two ways.

    Without a renderer an action is the reply's text. With one it is the sampled tokens, stop token
    included, and no token is ever rendered twice.
    """

    def __init__(
        self,
        paper: PaperRow | Item,
        *,
        task: Task = TASKS["disruption"],
        opponent: Opponent | None = None,
        script: str = "plain",
        reward: str = "adversarial/gated",
        renderer: Renderer | None = None,
        seed: int = 0,
    ) -> None:
        """Make it; the default opponent follows the script, and knows the cues of the synthetic worlds.

        Raises:
            ConfigError: there is no such script or reward.
            DataError: the paper has no label.
        """
        item = paper if isinstance(paper, Item) else items_of([paper], task)[0]
        words = load_script(script)
        scripted = ScriptedOpponent(labels=task.labels, script=words)
        super().__init__(task, item, opponent=opponent or scripted, script=words, seed=seed)
        self._reward = debate_reward(reward)
        self._renderer = renderer
        self._tokens: tuple[int, ...] = ()

    async def initial_observation(self) -> tuple[Observation, StopCondition]:
        """Return the prompt, and what ends a reply to it.

        Raises:
            DataError: the prompt leaks.
            InputError: the environment was used before.
        """
        prompt = self.first()
        if self._renderer is None:
            return Observation(messages=prompt), ()
        self._tokens = self._renderer.build_generation_prompt(prompt)
        return Observation(messages=prompt, tokens=self._tokens), self._stop()

    async def step(self, action: str | Sequence[int]) -> StepResult:
        """Take a reply: B's challenge follows the first, the reward the second.

        Raises:
            DataError: the challenge leaks.
            InputError: no reply is due, or it is no text (tokens, where there is a renderer).
        """
        awaited = self.reply(self._text(action))
        messages, reward, metrics = (), 0.0, {}
        if awaited is None:
            [terms] = self._reward.score([self.exchange()])
            reward = terms.total
            metrics = {field.name: float(getattr(terms, field.name)) for field in fields(terms)}
        else:
            # An opponent that is a model may need the loop this runs in.
            messages = (await asyncio.to_thread(awaited.message),)
            if self._renderer is not None and not isinstance(action, str):
                self._tokens = self._renderer.extend(self._tokens, action, messages)
        tokens = None if self._renderer is None else self._tokens
        return StepResult(
            reward=reward,
            episode_done=awaited is None,
            next_observation=Observation(messages=messages, tokens=tokens),
            next_stop_condition=self._stop(),
            metrics=metrics,
        )

    def _text(self, action: str | Sequence[int]) -> str:
        if isinstance(action, str) != (self._renderer is None):
            raise InputError(
                "an action is the sampled tokens with a renderer, and the reply's text without one",
                field="action",
                value=type(action).__name__,
            )
        if self._renderer is None or isinstance(action, str):
            return str(action)
        return self._renderer.parse_response(action).message.content

    def _stop(self) -> StopCondition:
        return () if self._renderer is None else self._renderer.stop_sequences()


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

    async def step(self, action: list[int], *, extra: Mapping[str, object] | None = None) -> cookbook.StepResult:
        """Take a reply: B's challenge follows the first, the whole reward the second.

        Raises:
            DataError: the challenge leaks.
            InputError: no reply is due.
        """
        del extra  # a reply that was cut off is known by its tokens
        found = await self.debate.step(action)
        return cookbook.StepResult(
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

    of: DebateDataset
    item: Item
    seed: int
    """Decides what the challenger argues for, and in which words."""

    async def make_envs(self) -> list[DebateEnv]:
        """Return new conversations."""
        of = self.of
        return [
            DebateEnv(
                AdversarialDisruptionEnv(
                    self.item,
                    task=of.task,
                    opponent=of.opponent,
                    script=of.script,
                    reward=of.reward,
                    renderer=of.renderer,
                    seed=self.seed,
                )
            )
            for _ in range(of.group_size)
        ]

    async def compute_group_rewards(
        self, trajectory_group: list[object], env_group: Sequence[object]
    ) -> list[tuple[float, dict[str, float | int]]]:
        """Return nothing on top: the last step had the whole reward."""
        del env_group
        return [(0.0, {}) for _ in trajectory_group]

    def logging_tags(self) -> list[str]:
        """Return what metrics are grouped by."""
        return [self.of.reward]

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
    """None: it follows the script, and knows the cues of the synthetic worlds."""

    def get_batch(self, index: int) -> list[DebateGroup]:
        """Return the groups of one batch; whatever their challengers draw comes from the seed and the place."""
        first = index * self.groups_per_batch
        return [
            DebateGroup(of=self, item=item, seed=derive(self.seed, "rollout", index, "group", place))
            for place, item in enumerate(self.items[first : first + self.groups_per_batch])
        ]

    def __len__(self) -> int:
        """Return how many whole batches there are."""
        return len(self.items) // self.groups_per_batch
