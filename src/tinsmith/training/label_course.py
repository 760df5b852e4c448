"""The course of papers with labels: contract, reward, label scores, collapse, and the choice of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import tinker

from tinsmith.analysis.alarms import Alarm
from tinsmith.tasks.contracts import Answer, Outcome
from tinsmith.tasks.paper import Item
from tinsmith.tasks.rewards import Reward, RewardState, Terms
from tinsmith.training.course import Examined, Examinee, Tested, chosen_and_last, tested_share
from tinsmith.training.evaluating import (
    PaperRollout,
    answer_facts,
    evaluate,
    item_facts,
    probe,
)
from tinsmith.training.exact import LabelGradient
from tinsmith.training.grouping import ScoredGroup
from tinsmith.training.offset import tested_with_offset
from tinsmith.training.progress import Progress, untold
from tinsmith.training.rollout_metrics import Line, share
from tinsmith.training.schedule import subset
from tinsmith.training.settings import CommonSettings, Gradient, RlSettings, SftSettings
from tinsmith.training.study import Study
from tinsmith.training.watch import Watch, score


@dataclass(slots=True, kw_only=True)
class LabelCourse:
    """See Course; its methods are described there."""

    ground: Study
    settings: CommonSettings
    reward: Reward | None = None
    """None: nothing is rewarded, as in supervised training."""
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = Watch(self.ground.task.labels)

    @property
    def train_items(self) -> Sequence[Item]:
        """The papers to train on."""
        return subset(self.ground.papers.train, self.settings.train_items)

    @property
    def validation_items(self) -> Sequence[Item]:
        """The papers that examinations look at while it trains."""
        return subset(self.ground.papers.validation, self.settings.eval_items)

    @property
    def test_items(self) -> Sequence[Item]:
        """The papers of the last look."""
        return subset(self.ground.papers.test, self.settings.test_items)

    @property
    def forks(self) -> int:
        """See Course."""
        return 1

    @property
    def by_turn(self) -> bool:
        """See Course."""
        return False

    @property
    def last_look(self) -> float:
        """See Course; the chosen policy is tested, and the last one."""
        return tested_share(self.settings, self.test_items, self.validation_items)

    def example(self, item: Item) -> tuple[tuple[int, ...], int]:
        """Return what supervised training reads: prompt and right answer, and how many tokens are the prompt's."""
        return self.ground.example(item, self.ground.answer(item.gold))

    def score(self, rollouts: Sequence[PaperRollout]) -> list[Terms]:
        """See Course."""
        assert self.reward is not None
        golds = [one.item.gold for one in rollouts]
        answers = [one.answer for one in rollouts]
        terms = self.reward.score(golds, answers)
        self.reward.update(golds, answers)
        return terms

    def exact(self) -> LabelGradient | None:
        """See Course."""
        settings = self.settings
        if not isinstance(settings, RlSettings) or settings.gradient is not Gradient.EXACT:
            return None
        assert self.reward is not None
        return LabelGradient(
            study=self.ground, paid=self.reward.per_label(), group_size=settings.group_size
        )

    def saw(self, step: int, groups: Sequence[ScoredGroup[Item, Answer]]) -> Sequence[Alarm]:
        """See Course."""
        return self.watch.saw_groups(step, groups)

    def train_metrics(self, groups: Sequence[ScoredGroup[Item, Answer]]) -> dict[str, float]:
        """See Course."""
        labels = self.ground.task.labels
        metrics: dict[str, float] = {}
        for label in labels:
            of_label = [group.informative for group in groups if group.item.gold == label]
            if of_label:
                metrics[f"train/groups/informative/{label}"] = share(of_label)
        rollouts = [one.rollout for group in groups for one in group.scored]
        if not rollouts:
            return metrics
        answers = [one.answer for one in rollouts]
        metrics["train/parse_ok"] = share(answer.outcome is Outcome.OK for answer in answers)
        metrics["train/label_match"] = share(
            one.answer.predicted == one.item.gold for one in rollouts
        )
        for label in labels:
            metrics[f"train/predicted_share/{label}"] = share(a.predicted == label for a in answers)
        return metrics

    def facts(self, rollout: PaperRollout) -> Line:
        """See Course."""
        return answer_facts(rollout)

    def item_facts(self, item: Item) -> Line:
        """See Course."""
        return item_facts(item)

    def examine(self, policy: Examinee, step: int) -> Examined:
        """Evaluate on the validation split, sampled and greedily, and look at the labels' probabilities."""
        items = self.validation_items
        found = [
            evaluate(
                policy.client,
                self.ground,
                items,
                self.settings,
                step=step,
                split=split,
                greedy=greedy,
                progress=policy.progress,
            )
            for greedy, split in ((False, "eval"), (True, "eval_greedy"))
        ]
        sampled, greedily = found
        metrics = {**sampled.evaluation.metrics("eval")}
        metrics |= greedily.evaluation.metrics("eval_greedy")
        metrics |= probe(policy.trainer, policy.base(), self.ground, items, sampled.rollouts)
        return Examined(
            metrics=metrics,
            lines=[*sampled.lines, *greedily.lines],
            score=score(sampled.evaluation, step, self.settings.select_by),
            alarms=self.watch.saw_evaluation(step, sampled.evaluation, metrics["eval/label_mi"]),
        )

    def test(
        self,
        chosen: tinker.SamplingClient,
        chosen_step: int,
        last: tinker.SamplingClient | None,
        last_step: int,
        progress: Progress = untold,
    ) -> Tested:
        """Look at the test split once."""
        found = chosen_and_last(self._look, chosen, chosen_step, last, last_step, progress)
        if not (isinstance(self.settings, SftSettings) and self.settings.logit_offset):
            return found
        metrics, lines = tested_with_offset(
            chosen, self.ground, self.validation_items, self.test_items, step=chosen_step
        )
        return Tested(metrics={**found.metrics, **metrics}, lines=[*found.lines, *lines])

    def _look(
        self, client: tinker.SamplingClient, step: int, split: str, progress: Progress
    ) -> Tested:
        metrics: dict[str, float] = {}
        lines: list[Line] = []
        for greedy, name in ((False, split), (True, f"{split}_greedy")):
            found = evaluate(
                client,
                self.ground,
                self.test_items,
                self.settings,
                step=step,
                split=name,
                greedy=greedy,
                progress=progress,
            )
            metrics |= found.evaluation.metrics(name)
            lines += found.lines
        return Tested(metrics=metrics, lines=lines)

    def trace(self) -> Mapping[str, float]:
        """See Course."""
        return {} if self.reward is None else self.reward.trace()

    @property
    def alarms(self) -> Sequence[Alarm]:
        """See Course."""
        return self.watch.monitor.alarms

    def state(self) -> object:
        """See Course."""
        reward = None if self.reward is None else self.reward.state().to_json()
        return {"watch": self.watch.state(), "reward": reward}

    def restore(self, state: object) -> None:
        """See Course."""
        kept = cast(Mapping[str, object], state)
        self.watch.restore(kept["watch"])
        if self.reward is not None:
            self.reward.restore(RewardState.from_json(kept["reward"]))

    def close(self) -> None:
        """See Course; nothing is held open."""
