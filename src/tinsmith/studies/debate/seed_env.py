"""The conversation as the source notes write it: `await env.initial_observation()`, `await env.step(action)`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final

from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.labels.paper import Item, items_of
from tinsmith.lab.labels.task import TASKS, Task
from tinsmith.renderers.renderer import Message, Renderer
from tinsmith.studies.debate.conversation import Debate
from tinsmith.studies.debate.opponent import Opponent, ScriptedOpponent
from tinsmith.studies.debate.rewards import debate_reward
from tinsmith.studies.debate.script import load_script
from tinsmith.types.errors import InputError

_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})

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
        if awaited is None:
            [terms] = self._reward.score([self.exchange()])
            over = Observation(messages=(), tokens=None if self._renderer is None else self._tokens)
            metrics = {field.name: float(getattr(terms, field.name)) for field in fields(terms)}
            return StepResult(
                reward=terms.total,
                episode_done=True,
                next_observation=over,
                next_stop_condition=self._stop(),
                metrics=MappingProxyType(metrics),
            )
        # An opponent that is a model may need the loop this runs in.
        message = await asyncio.to_thread(awaited.message)
        tokens = None
        if self._renderer is not None and not isinstance(action, str):
            tokens = self._tokens = self._renderer.extend(self._tokens, action, (message,))
        return StepResult(
            reward=0.0,
            episode_done=False,
            next_observation=Observation(messages=(message,), tokens=tokens),
            next_stop_condition=self._stop(),
            metrics=_NOTHING,
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
