"""The course of the adversarial pair: what conversations earn, and how a policy takes a challenge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import tinker

from tinsmith.lab.course import Examined, Examinee, Score, Tested
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.ground import Papers
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.policy import told_drift
from tinsmith.lab.progress import Progress, untold
from tinsmith.lab.rollout_metrics import Line, examined_lines, share
from tinsmith.lab.rollouts import Failure, Sampling, sample_groups
from tinsmith.lab.schedule import subset
from tinsmith.lab.settings import CommonSettings
from tinsmith.stats.alarms import Alarm
from tinsmith.studies.debate.cues import Cues, pieces_of
from tinsmith.studies.debate.exchange import Exchange
from tinsmith.studies.debate.ground import DebateGround, DebateRollout
from tinsmith.studies.debate.opponent import Opponent
from tinsmith.studies.debate.rewards import Credit, DebateReward, DebateTerms
from tinsmith.studies.debate.stance import Arm
from tinsmith.studies.debate.statistics import Debated, by_group, figures, metrics
from tinsmith.types.seeds import derive


@dataclass(slots=True, kw_only=True)
class DebateCourse:
    """See Course; its methods are described there."""

    ground: DebateGround
    papers: Papers
    settings: CommonSettings
    reward: DebateReward
    forks: int
    cues: Cues
    """By which it is told how much room a paper leaves for doubt."""
    control: Opponent | None
    """Who challenges without evidence in the test, as its negative control; None: there is no such test."""

    @property
    def by_turn(self) -> bool:
        """See Course."""
        return self.reward.credit is Credit.TURN

    @property
    def train_items(self) -> Sequence[Item]:
        """The papers to train on."""
        return subset(self.papers.train, self.settings.train_items)

    @property
    def validation_items(self) -> Sequence[Item]:
        """The papers that examinations look at while it trains."""
        return subset(self.papers.validation, self.settings.eval_items)

    @property
    def test_items(self) -> Sequence[Item]:
        """The papers of the last look."""
        return subset(self.papers.test, self.settings.test_items)

    @property
    def last_look(self) -> float:
        """See Course; the test is asked with evidence, and without."""
        grounds = 1 if self.control is None else 2
        return grounds * len(self.test_items) / max(1, len(self.validation_items))

    def score(self, rollouts: Sequence[DebateRollout]) -> list[DebateTerms]:
        """See Course."""
        return self.reward.score([one.answer for one in rollouts])

    def exact(self) -> None:
        """See Course; a conversation is no choice among labels."""

    def saw(self, step: int, groups: Sequence[ScoredGroup[Item, Exchange]]) -> list[Alarm]:
        """See Course; nothing is watched but what examinations tell."""
        del step, groups
        return []

    def train_metrics(self, groups: Sequence[ScoredGroup[Item, Exchange]]) -> dict[str, float]:
        """See Course."""
        rollouts = [one.rollout for group in groups for one in group.scored]
        if not rollouts:
            return {}
        debated = [self._debated(one) for one in rollouts]
        found = {
            f"train/{name}": figure.value
            for name, figure in figures(debated, len(self.ground.task.labels)).items()
            if figure is not None
        }
        return found | {
            f"train/predicted_share/{label}": share(
                one.answer.last.predicted == label for one in rollouts
            )
            for label in self.ground.task.labels
        }

    def facts(self, rollout: DebateRollout) -> Line:
        """See Course."""
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
        """See Course."""
        return {"gold": item.gold}

    def examine(self, policy: Examinee, step: int) -> Examined:
        """Have validation papers discussed, sampled and greedily."""
        found, lines, sampled = self._asked(
            policy.client, self.ground, self.validation_items, step, "eval", policy.progress
        )
        more, others, _ = self._asked(
            policy.client,
            self.ground,
            self.validation_items,
            step,
            "eval_greedy",
            policy.progress,
            greedy=True,
        )
        found |= told_drift(policy.base(), sampled)
        return Examined(
            metrics={**found, **more}, lines=[*lines, *others], score=Score(float(step), 0.0)
        )

    def test(
        self,
        chosen: tinker.SamplingClient,
        chosen_step: int,
        last: tinker.SamplingClient | None,
        last_step: int,
        progress: Progress = untold,
    ) -> Tested:
        """Look at the test split once: challenged as in training, and as the negative control without evidence."""
        del last, last_step  # the last policy is always the chosen one
        grounds = {"test": self.ground}
        if self.control is not None:
            grounds["test_no_evidence"] = replace(self.ground, opponent=self.control)
        told: dict[str, float] = {}
        lines: list[Line] = []
        for name, ground in grounds.items():
            for greedy in (False, True):
                split = f"{name}_greedy" if greedy else name
                found, more, _ = self._asked(
                    chosen, ground, self.test_items, chosen_step, split, progress, greedy=greedy
                )
                told |= found
                lines += more
        return Tested(metrics=told, lines=lines)

    def _asked(
        self,
        client: tinker.SamplingClient,
        ground: DebateGround,
        items: Sequence[Item],
        step: int,
        split: str,
        progress: Progress,
        *,
        greedy: bool = False,
    ) -> tuple[dict[str, float], list[Line], list[DebateRollout]]:
        settings = self.settings
        sampling = Sampling(
            samples=1,
            max_tokens=settings.max_tokens,
            temperature=0.0 if greedy else settings.temperature,
            seed=derive(settings.seed, "evaluation"),
            progress=progress,
        )
        answers = [group[0] for group in sample_groups(client, ground, items, sampling)]
        lines = examined_lines(step, split, answers, self.facts, self.item_facts)
        kept = [one for one in answers if not isinstance(one, Failure)]
        debated = [self._debated(one) for one in kept]
        groups = by_group(debated, len(ground.task.labels))
        return dict(metrics(groups, split)), lines, kept

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

    def trace(self) -> Mapping[str, float]:
        """See Course; a reward here has no state."""
        return {}

    @property
    def alarms(self) -> Sequence[Alarm]:
        """See Course; none is raised here."""
        return ()

    def state(self) -> object:
        """See Course; there is none."""
        return None

    def restore(self, state: object) -> None:
        """See Course."""
        del state

    def close(self) -> None:
        """See Course; nothing is held open."""


def _turns(rollout: DebateRollout, answers: Sequence[Answer]) -> list[Line]:
    """Return what was said after the prompt, in order."""
    said: list[Line] = []
    for number, (turn, answer) in enumerate(zip(rollout.turns, answers, strict=True)):
        if number:
            said.append({"role": "user", "text": rollout.answer.challenge})
        said.append(
            {
                "role": "assistant",
                "tokens": list(turn.tokens),
                "text": turn.text,
                "outcome": answer.outcome.value,
            }
        )
    return said
