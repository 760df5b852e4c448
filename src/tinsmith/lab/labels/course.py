"""The course of papers with labels: contract, reward, label scores, collapse, and the choice of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import tinker

from tinsmith.lab.course import Examined, Examinee, Tested, chosen_and_last, tested_share
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.labels.answers import Answer, Outcome
from tinsmith.lab.labels.evaluating import Evaluated, PaperRollout, evaluate, information
from tinsmith.lab.labels.exact import LabelGradient
from tinsmith.lab.labels.ground import Study
from tinsmith.lab.labels.offset import tested_with_offset
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.watch import Watch, score
from tinsmith.lab.policy import told_drift
from tinsmith.lab.progress import Progress, untold
from tinsmith.lab.rewards.label_reward import LabelReward, LabelTerms
from tinsmith.lab.rollout_metrics import Line, share
from tinsmith.lab.schedule import subset
from tinsmith.lab.settings import CommonSettings, Gradient, RlSettings, SftSettings
from tinsmith.stats.alarms import Alarm


@dataclass(slots=True, kw_only=True)
class LabelCourse:
    """See Course; its methods are described there."""

    ground: Study
    settings: CommonSettings
    reward: LabelReward | None = None
    """None: nothing is rewarded, as in supervised training."""
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = Watch(self.ground.task)

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
        return self.ground.example(item, self.ground.answer(item.golds))

    def score(self, rollouts: Sequence[PaperRollout]) -> list[LabelTerms]:
        """See Course."""
        assert self.reward is not None
        items, answers = [one.item for one in rollouts], [one.answer for one in rollouts]
        terms = self.reward.score(items, answers)
        self.reward.update(items, answers)
        return terms

    def exact(self) -> LabelGradient | None:
        """See Course."""
        settings = self.settings
        if not isinstance(settings, RlSettings) or settings.gradient is not Gradient.EXACT:
            return None
        assert self.reward is not None
        (reward,) = self.reward.rewards  # both labels in one answer have no exact gradient
        return LabelGradient(
            study=self.ground, paid=reward.per_label(), group_size=settings.group_size
        )

    def saw(self, step: int, groups: Sequence[ScoredGroup[Item, Answer]]) -> Sequence[Alarm]:
        """See Course."""
        return self.watch.saw_groups(step, groups)

    def train_metrics(self, groups: Sequence[ScoredGroup[Item, Answer]]) -> dict[str, float]:
        """See Course."""
        task = self.ground.task
        rollouts = [one.rollout for group in groups for one in group.scored]
        metrics: dict[str, float] = {}
        for place, subject in enumerate(task.subjects):
            for label in subject.labels:
                of_label = [one.informative for one in groups if one.item.golds[place] == label]
                if of_label:
                    metrics[f"train/groups/informative/{label}"] = share(of_label)
            if not rollouts:
                continue
            under = task.under("train", subject)
            said = [one.answer.alone(place).predicted for one in rollouts]
            metrics[f"{under}/label_match"] = share(
                label == one.item.golds[place] for label, one in zip(said, rollouts, strict=True)
            )
            for label in subject.labels:
                metrics[f"{under}/predicted_share/{label}"] = share(one == label for one in said)
        if rollouts:
            metrics["train/parse_ok"] = share(one.answer.outcome is Outcome.OK for one in rollouts)
        if rollouts and len(task.subjects) > 1:
            metrics["train/exact_match"] = share(
                one.answer.predicted_labels == one.item.golds for one in rollouts
            )
        return metrics

    def facts(self, rollout: PaperRollout) -> Line:
        """See Course."""
        return self.ground.answer_facts(rollout)

    def item_facts(self, item: Item) -> Line:
        """See Course."""
        return self.ground.item_facts(item)

    def examine(self, policy: Examinee, step: int) -> Examined:
        """Evaluate on the validation split, sampled and greedily, and look at the labels' probabilities."""
        items = self.validation_items
        sampled, greedily = self._asked(policy.client, items, step, "eval", policy.progress)
        metrics = sampled.evaluation.metrics("eval") | greedily.evaluation.metrics("eval_greedy")
        told = information(policy.trainer, self.ground, items)
        for subject in self.ground.task.subjects:
            metrics[f"{self.ground.task.under('eval', subject)}/label_mi"] = told[subject]
        metrics |= told_drift(policy.base(), sampled.rollouts)
        return Examined(
            metrics=metrics,
            lines=[*sampled.lines, *greedily.lines],
            score=score(sampled.evaluation, step, self.settings.select_by),
            alarms=self.watch.saw_evaluation(step, sampled.evaluation, told),
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
        sampled, greedily = self._asked(client, self.test_items, step, split, progress)
        metrics = sampled.evaluation.metrics(split) | greedily.evaluation.metrics(f"{split}_greedy")
        return Tested(metrics=metrics, lines=[*sampled.lines, *greedily.lines])

    def _asked(
        self,
        client: tinker.SamplingClient,
        items: Sequence[Item],
        step: int,
        split: str,
        progress: Progress,
    ) -> list[Evaluated]:
        """Ask at the training temperature, and greedily."""
        return [
            evaluate(
                client,
                self.ground,
                items,
                self.settings,
                step=step,
                split=name,
                greedy=greedy,
                progress=progress,
            )
            for greedy, name in ((False, split), (True, f"{split}_greedy"))
        ]

    def trace(self) -> Mapping[str, float]:
        """See Course."""
        return {} if self.reward is None else self.reward.trace()

    @property
    def alarms(self) -> Sequence[Alarm]:
        """See Course."""
        return self.watch.alarms

    def state(self) -> object:
        """See Course."""
        reward = None if self.reward is None else self.reward.state()
        return {"watch": self.watch.state(), "reward": reward}

    def restore(self, state: object) -> None:
        """See Course."""
        kept = cast(Mapping[str, object], state)
        self.watch.restore(kept["watch"])
        if self.reward is not None:
            self.reward.restore(kept["reward"])

    def close(self) -> None:
        """See Course; nothing is held open."""
