"""Where the adversarial pair meets: A's answers are sampled and trained on, B's words stand between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tinsmith.lab.environment import Environment, OneReply, Over
from tinsmith.lab.labels.environment import Awaited, SingleTurn
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.task import Task
from tinsmith.lab.rollouts import Rollout, Trajectory
from tinsmith.renderers.renderer import Renderer
from tinsmith.studies.debate.conversation import Debate
from tinsmith.studies.debate.exchange import Exchange, reasons_of
from tinsmith.studies.debate.opponent import Opponent
from tinsmith.studies.debate.script import Script
from tinsmith.studies.debate.stance import Arm, Stance

DebateRollout = Rollout[Item, Exchange]

NOBODY = Stance(arm=Arm.NULL, label=None, with_evidence=False)
"""The stance of who does not challenge."""


@dataclass(slots=True)
class DebateInTokens:
    """A conversation of two, in tokens."""

    renderer: Renderer
    debate: Debate

    def first(self) -> tuple[int, ...]:
        """See Environment."""
        return self.renderer.build_generation_prompt(self.debate.first())

    def step(self, tokens: Sequence[int]) -> Over | Heard:
        """See Environment."""
        awaited = self.debate.reply(self.renderer.parse_response(tokens).message.content)
        return Over() if awaited is None else Heard(self.renderer, tuple(tokens), awaited)

    def fork(self) -> Self:
        """See Forkable."""
        return type(self)(self.renderer, self.debate.fork())


@dataclass(frozen=True, slots=True)
class Heard:
    """What follows a first answer: its end, where it has none, and the challenge."""

    renderer: Renderer
    reply: tuple[int, ...]
    awaited: Awaited

    def observation(self) -> tuple[int, ...]:
        """Wait for the challenge."""
        extended = self.renderer.extend((), self.reply, (self.awaited.message(),))
        return extended[len(self.reply) :]


@dataclass(slots=True, kw_only=True)
class DebateGround:
    """See Ground; its methods are described there."""

    task: Task
    renderer: Renderer
    script: Script
    opponent: Opponent | None
    """None: nobody challenges, and the first answer is the last."""

    def stop(self) -> Sequence[int]:
        """See Ground."""
        return self.renderer.stop_sequences()

    def environments(self, item: Item, count: int, seed: int) -> Sequence[Environment]:
        """See Ground. A group shares its challenger's arm: all have the same seed.

        Raises:
            DataError: the prompt leaks.
        """
        if self.opponent is None:
            prompt = self.renderer.build_generation_prompt(SingleTurn(self.task, item).first())
            return [OneReply(prompt)] * count
        return [
            DebateInTokens(
                self.renderer,
                Debate(self.task, item, opponent=self.opponent, script=self.script, seed=seed),
            )
            for _ in range(count)
        ]

    def text(self, tokens: Sequence[int]) -> str:
        """See Ground."""
        return self.renderer.parse_response(tokens).message.content

    def read(self, trajectories: Sequence[Trajectory[Item]]) -> list[Exchange]:
        """See Ground."""
        return [self._read(one) for one in trajectories]

    def _read(self, ended: Trajectory[Item]) -> Exchange:
        if isinstance(ended.environment, DebateInTokens):
            return ended.environment.debate.exchange()
        text = ended.turns[-1].text
        answer = self.task.contract.parse(text)
        return Exchange(
            item=ended.item,
            first=answer,
            last=answer,
            stance=NOBODY,
            challenge="",
            reasons=reasons_of(self.task.contract, text),
        )
