"""The course of a cookbook dataset: what its environments and groups earn, and how a policy fares in held-out ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tinker

from tinsmith.lab.cookbook.ground import CookbookGround, CookbookItem, Earned
from tinsmith.lab.course import Examined, Examinee, Score, Tested
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.policy import told_drift
from tinsmith.lab.progress import Progress, untold
from tinsmith.lab.rewards.terms import rounded_sum
from tinsmith.lab.rollout_metrics import Line, examined_lines
from tinsmith.lab.rollouts import Failure, Rollout, Sampling, sample_groups
from tinsmith.lab.schedule import subset
from tinsmith.lab.settings import RlSettings
from tinsmith.stats.alarms import Alarm
from tinsmith.types.seeds import derive

CookbookRollout = Rollout[CookbookItem, Earned]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarnedTerms:
    """The parts of one conversation's reward."""

    steps: float
    """Sum of what the environment gave."""
    group: float
    """What the group gave on top."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """See Terms."""
        return ("steps", "group")

    @property
    def total(self) -> float:
        """See Terms; rounded to 12 decimals."""
        return rounded_sum(self.steps, self.group)


@dataclass(slots=True, kw_only=True)
class CookbookCourse:
    """See Course; its methods are described there. Groups have the size that the dataset gives them."""

    ground: CookbookGround
    train_items: Sequence[CookbookItem]
    settings: RlSettings
    held_out: Sequence[CookbookItem] = ()
    """What a policy is examined on; none: it is not."""
    test_items: Sequence[CookbookItem] = field(default_factory=tuple[CookbookItem, ...])

    @property
    def forks(self) -> int:
        """See Course; cookbook environments do not fork."""
        return 1

    @property
    def by_turn(self) -> bool:
        """See Course."""
        return False

    def score(self, rollouts: Sequence[CookbookRollout]) -> list[EarnedTerms]:
        """See Course."""
        return [
            EarnedTerms(steps=math.fsum(one.answer.steps), group=one.answer.group)
            for one in rollouts
        ]

    def exact(self) -> None:
        """See Course; a conversation is no choice among labels."""

    def saw(self, step: int, groups: Sequence[ScoredGroup[CookbookItem, Earned]]) -> list[Alarm]:
        """See Course; nothing is watched."""
        del step, groups
        return []

    def train_metrics(
        self, groups: Sequence[ScoredGroup[CookbookItem, Earned]]
    ) -> dict[str, float]:
        """Return the mean of every number that environments told, as `train/env/NAME`."""
        return _told([one.rollout for group in groups for one in group.scored], "train")

    def facts(self, rollout: CookbookRollout) -> Line:
        """See Course."""
        return {
            "turns": [
                {"role": "assistant", "tokens": list(turn.tokens), "text": turn.text}
                for turn in rollout.turns
            ],
            "rewards": list(rollout.answer.steps),
            "group_reward": rollout.answer.group,
            "env": dict(sorted(rollout.answer.metrics.items())),
        }

    def item_facts(self, item: CookbookItem) -> Line:
        """See Course."""
        return {"tags": item.tags}

    @property
    def last_look(self) -> float:
        """See Course."""
        tested = subset(self.test_items, self.settings.test_items)
        return len(tested) / max(1, len(subset(self.held_out, self.settings.eval_items)))

    def examine(self, policy: Examinee, step: int) -> Examined:
        """Have held-out groups played, at the training temperature; scored by their mean reward."""
        if not self.held_out:
            return Examined(metrics={}, lines=(), score=Score(float(step), 0.0))
        items = subset(self.held_out, self.settings.eval_items)
        metrics, lines, kept = self._played(policy.client, items, step, "eval", policy.progress)
        metrics |= told_drift(policy.base(), kept)
        score = metrics.get("eval/reward/total", -math.inf)
        return Examined(metrics=metrics, lines=lines, score=Score(score, float(step)))

    def test(
        self,
        chosen: tinker.SamplingClient,
        chosen_step: int,
        last: tinker.SamplingClient | None,
        last_step: int,
        progress: Progress = untold,
    ) -> Tested:
        """Have the test's groups played once by the chosen policy."""
        del last, last_step
        if not self.test_items:
            return Tested(metrics={}, lines=())
        items = subset(self.test_items, self.settings.test_items)
        metrics, lines, _ = self._played(chosen, items, chosen_step, "test", progress)
        return Tested(metrics=metrics, lines=lines)

    def _played(
        self,
        client: tinker.SamplingClient,
        items: Sequence[CookbookItem],
        step: int,
        split: str,
        progress: Progress,
    ) -> tuple[dict[str, float], list[Line], list[CookbookRollout]]:
        sampling = Sampling(
            samples=self.settings.group_size,
            max_tokens=self.settings.max_tokens,
            temperature=self.settings.temperature,
            seed=derive(self.settings.seed, "evaluation"),
            progress=progress,
        )
        played = [
            one for group in sample_groups(client, self.ground, items, sampling) for one in group
        ]
        lines = examined_lines(step, split, played, self.facts, self.item_facts)
        kept = [one for one in played if not isinstance(one, Failure)]
        metrics = _told(kept, split)
        if kept:
            totals = [terms.total for terms in self.score(kept)]
            metrics[f"{split}/reward/total"] = math.fsum(totals) / len(totals)
        return metrics, lines, kept

    def trace(self) -> Mapping[str, float]:
        """See Course; a reward here has no state."""
        return {}

    @property
    def alarms(self) -> Sequence[Alarm]:
        """See Course; none is raised here."""
        return ()

    def state(self) -> object:
        """See Course; what environments remember is their own affair."""
        return None

    def restore(self, state: object) -> None:
        """See Course."""
        del state

    def close(self) -> None:
        """End the environments' thread."""
        self.ground.close()


def _told(rollouts: Sequence[CookbookRollout], split: str) -> dict[str, float]:
    """Return means over the rollouts that have the number."""
    names = sorted({name for one in rollouts for name in one.answer.metrics})
    found: dict[str, float] = {}
    for name in names:
        values = [one.answer.metrics[name] for one in rollouts if name in one.answer.metrics]
        found[f"{split}/env/{name}"] = math.fsum(values) / len(values)
    return found
