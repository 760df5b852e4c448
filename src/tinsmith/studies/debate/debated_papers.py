"""Papers as a subject of two: A's answers are sampled and trained on, B's words stand between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tinsmith.lab.environment import Environment, OneReply, Over
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.labelled_papers import Papers
from tinsmith.lab.labels.leaks import prompt_messages
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.task import Task
from tinsmith.lab.rollout_metrics import Line, share
from tinsmith.lab.rollouts import Failure, Rollout, Trajectory
from tinsmith.lab.subject import Split, Subject
from tinsmith.renderers.renderer import Renderer
from tinsmith.studies.debate.conversation import Debate
from tinsmith.studies.debate.cues import Cues, pieces_of
from tinsmith.studies.debate.exchange import Exchange, reasons_of
from tinsmith.studies.debate.opponent import Opponent
from tinsmith.studies.debate.rewards import DebateReward, DebateTerms
from tinsmith.studies.debate.script import Script
from tinsmith.studies.debate.stance import Arm, Stance
from tinsmith.studies.debate.statistics import Debated, by_group, figures, metrics
from tinsmith.studies.debate.transcript import Awaited

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
class DebatedPapers(Subject[Item, Exchange]):
    """See Subject; its methods are described there."""

    task: Task
    renderer: Renderer
    script: Script
    opponent: Opponent | None
    """None: nobody challenges, and the first answer is the last."""
    papers: Papers
    reward: DebateReward
    cues: Cues
    """By which it is told how much room a paper leaves for doubt."""

    def items(self, split: Split) -> Sequence[Item]:
        """See Subject."""
        return self.papers.of(split)

    def stop(self) -> Sequence[int]:
        """See Subject."""
        return self.renderer.stop_sequences()

    def environments(self, item: Item, count: int, seed: int) -> Sequence[Environment]:
        """See Subject. A group shares its challenger's arm: all have the same seed.

        Raises:
            DataError: the prompt leaks.
        """
        if self.opponent is None:
            prompt = self.renderer.build_generation_prompt(prompt_messages(self.task, item))
            return [OneReply(prompt)] * count
        return [
            DebateInTokens(
                self.renderer, Debate(self.task, item, opponent=self.opponent, script=self.script, seed=seed)
            )
            for _ in range(count)
        ]

    def text(self, tokens: Sequence[int]) -> str:
        """See Subject."""
        return self.renderer.parse_response(tokens).message.content

    def read(self, trajectories: Sequence[Trajectory[Item]]) -> list[Exchange]:
        """See Subject."""
        return [self._read(one) for one in trajectories]

    def _read(self, ended: Trajectory[Item]) -> Exchange:
        if isinstance(ended.environment, DebateInTokens):
            return ended.environment.debate.exchange()
        text = ended.text
        answer = self.task.contract.parse(text)
        return Exchange(
            item=ended.item,
            first=answer,
            last=answer,
            stance=NOBODY,
            challenge="",
            reasons=reasons_of(self.task.contract, text),
        )

    def score(self, rollouts: Sequence[DebateRollout]) -> list[DebateTerms]:
        """See Subject."""
        return self.reward.score([one.answer for one in rollouts])

    def figures(self, groups: Sequence[Sequence[DebateRollout | Failure[Item]]], split: str) -> dict[str, float]:
        """See Subject."""
        found = [self._debated(one) for group in groups for one in group if isinstance(one, Rollout)]
        return dict(metrics(by_group(found, len(self.task.labels)), split))

    def train_figures(self, groups: Sequence[ScoredGroup[Item, Exchange]]) -> dict[str, float]:
        """See Subject."""
        rollouts = [one.rollout for group in groups for one in group.scored]
        if not rollouts:
            return {}
        debated = [self._debated(one) for one in rollouts]
        found = {
            f"train/{name}": figure.value
            for name, figure in figures(debated, len(self.task.labels)).items()
            if figure is not None
        }
        return found | {
            f"train/predicted_share/{label}": share(one.answer.last.predicted == label for one in rollouts)
            for label in self.task.labels
        }

    def facts(self, rollout: DebateRollout) -> Line:
        """See Subject."""
        exchange = rollout.answer
        stance, answers = exchange.stance, (exchange.first, exchange.last)[-len(rollout.turns) :]
        told: Line = {
            "fork": rollout.fork,
            "outcome": exchange.last.outcome.value,
            "gold": rollout.item.gold,
            "predicted": exchange.last.predicted,
            "confidence": exchange.last.confidence,
            "correct_by_turn": [one.predicted == rollout.item.gold for one in answers],
            "turns": _turns(rollout, answers),
            "speaks_for": self._speaks_for(rollout.item),
        }
        if len(rollout.turns) > 1:
            told["challenge"] = {
                "arm": stance.arm.value,
                "label": stance.label,
                "evidence": stance.with_evidence,
                "grounded": stance.grounded,
            }
        return told

    def item_facts(self, item: Item) -> Line:
        """See Subject."""
        return {"gold": item.gold}

    def _debated(self, rollout: DebateRollout) -> Debated:
        exchange = rollout.answer
        return Debated(
            item=rollout.item.paper.id,
            gold=rollout.item.gold,
            first=exchange.first.predicted,
            last=exchange.last.predicted,
            arm=exchange.stance.arm,
            evidence=exchange.stance.arm is not Arm.NULL and exchange.stance.with_evidence,
            first_confidence=exchange.first.confidence,
            last_confidence=exchange.last.confidence,
            speaks_for=self._speaks_for(rollout.item),
        )

    def _speaks_for(self, item: Item) -> int:
        return self.cues.speaks_for(pieces_of(item.paper.abstract))


def _turns(rollout: DebateRollout, answers: Sequence[Answer]) -> list[Line]:
    """Return what was said after the prompt, in order."""
    said: list[Line] = []
    for number, (turn, answer) in enumerate(zip(rollout.turns, answers, strict=True)):
        if number:
            said.append({"role": "user", "text": rollout.answer.challenge})
        said.append(
            {"role": "assistant", "tokens": list(turn.tokens), "text": turn.text, "outcome": answer.outcome.value}
        )
    return said
