"""The course of papers with two labels in one answer: rewards, both tasks' scores, collapse, choice of a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import tinker

from tinsmith.analysis.alarms import Alarm
from tinsmith.analysis.evaluation import Answered, Evaluation
from tinsmith.analysis.information import label_information
from tinsmith.analysis.joint import JointEvaluation
from tinsmith.tasks.answers import JointAnswer, Outcome
from tinsmith.tasks.joint import JointItem
from tinsmith.tasks.joint_rewards import JointReward, JointTerms
from tinsmith.training.course import Examined, Examinee, Tested, chosen_and_last, tested_share
from tinsmith.training.evaluating import PROBED
from tinsmith.training.grouping import ScoredGroup
from tinsmith.training.joint_ground import JointGround, JointPapers, JointRollout
from tinsmith.training.joint_watch import JointWatch, joint_score
from tinsmith.training.label_scores import label_probabilities, trained_logprobs
from tinsmith.training.policy import told_drift
from tinsmith.training.progress import Progress, untold
from tinsmith.training.rollout_metrics import Line, examined_lines, share
from tinsmith.training.rollouts import Failure, Sampling, sample_groups
from tinsmith.training.schedule import subset
from tinsmith.training.settings import CommonSettings
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What an evaluation says, and the answers it rests on."""

    evaluation: JointEvaluation
    lines: list[Line]
    rollouts: list[JointRollout]


@dataclass(slots=True, kw_only=True)
class JointCourse:
    """See Course; its methods are described there."""

    ground: JointGround
    papers: JointPapers
    settings: CommonSettings
    reward: JointReward
    watch: JointWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = JointWatch(self.ground.task)

    @property
    def train_items(self) -> Sequence[JointItem]:
        """The papers to train on."""
        return subset(self.papers.train, self.settings.train_items)

    @property
    def validation_items(self) -> Sequence[JointItem]:
        """The papers that examinations look at while it trains."""
        return subset(self.papers.validation, self.settings.eval_items)

    @property
    def test_items(self) -> Sequence[JointItem]:
        """The papers of the last look."""
        return subset(self.papers.test, self.settings.test_items)

    @property
    def last_look(self) -> float:
        """See Course; the chosen policy is tested, and the last one."""
        return tested_share(self.settings, self.test_items, self.validation_items)

    @property
    def forks(self) -> int:
        """See Course."""
        return 1

    @property
    def by_turn(self) -> bool:
        """See Course."""
        return False

    def score(self, rollouts: Sequence[JointRollout]) -> list[JointTerms]:
        """See Course."""
        items, answers = [one.item for one in rollouts], [one.answer for one in rollouts]
        terms = self.reward.score(items, answers)
        self.reward.update(items, answers)
        return terms

    def exact(self) -> None:
        """See Course; every gradient is sampled."""

    def saw(
        self, step: int, groups: Sequence[ScoredGroup[JointItem, JointAnswer]]
    ) -> Sequence[Alarm]:
        """See Course."""
        return self.watch.saw_groups(step, groups)

    def train_metrics(
        self, groups: Sequence[ScoredGroup[JointItem, JointAnswer]]
    ) -> dict[str, float]:
        """See Course."""
        rollouts = [one.rollout for group in groups for one in group.scored]
        if not rollouts:
            return {}
        metrics = {
            "train/parse_ok": share(one.answer.outcome is Outcome.OK for one in rollouts),
            "train/exact_match": share(one.answer.predicted == one.item.golds for one in rollouts),
        }
        for place, subject in enumerate(self.ground.task.subjects):
            said = [one.answer.alone(place).predicted for one in rollouts]
            metrics[f"train/{subject}/label_match"] = share(
                label == one.item.golds[place] for label, one in zip(said, rollouts, strict=True)
            )
            for label in subject.labels:
                of_label = [one.informative for one in groups if one.item.golds[place] == label]
                if of_label:
                    metrics[f"train/groups/informative/{label}"] = share(of_label)
                metrics[f"train/{subject}/predicted_share/{label}"] = share(
                    one == label for one in said
                )
        return metrics

    def facts(self, rollout: JointRollout) -> Line:
        """See Course."""
        answer = rollout.answer
        predicted = None if answer.predicted is None else self._by_subject(answer.predicted)
        return {
            "outcome": answer.outcome.value,
            **self.item_facts(rollout.item),
            "predicted": predicted,
            "confidence": answer.confidence,
        }

    def item_facts(self, item: JointItem) -> Line:
        """See Course."""
        return {"gold": self._by_subject(item.golds)}

    def _by_subject(self, labels: Sequence[str]) -> dict[str, str]:
        subjects = self.ground.task.subjects
        return {subject.value: label for subject, label in zip(subjects, labels, strict=True)}

    def examine(self, policy: Examinee, step: int) -> Examined:
        """Evaluate on the validation split, sampled and greedily, and look at the labels' probabilities."""
        items = self.validation_items
        told = policy.progress
        sampled = self._ask(policy.client, items, step, "eval", told)
        greedily = self._ask(policy.client, items, step, "eval_greedy", told, greedy=True)
        metrics = sampled.evaluation.metrics("eval") | greedily.evaluation.metrics("eval_greedy")
        information = self._information(policy.trainer, items[:PROBED])
        metrics |= {f"eval/{name}/label_mi": value for name, value in information.items()}
        metrics |= told_drift(policy.base(), sampled.rollouts)
        return Examined(
            metrics=metrics,
            lines=[*sampled.lines, *greedily.lines],
            score=joint_score(sampled.evaluation, step, self.settings.select_by),
            alarms=self.watch.saw_evaluation(step, sampled.evaluation, information),
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
        return chosen_and_last(self._look, chosen, chosen_step, last, last_step, progress)

    def _look(
        self, client: tinker.SamplingClient, step: int, split: str, progress: Progress
    ) -> Tested:
        items, name = self.test_items, f"{split}_greedy"
        sampled = self._ask(client, items, step, split, progress)
        greedily = self._ask(client, items, step, name, progress, greedy=True)
        metrics = sampled.evaluation.metrics(split) | greedily.evaluation.metrics(f"{split}_greedy")
        return Tested(metrics=metrics, lines=[*sampled.lines, *greedily.lines])

    def _ask(
        self,
        client: tinker.SamplingClient,
        items: Sequence[JointItem],
        step: int,
        split: str,
        progress: Progress,
        *,
        greedy: bool = False,
    ) -> _Asked:
        """Ask for one answer a paper, with the same seeds every time."""
        settings = self.settings
        sampling = Sampling(
            samples=1,
            max_tokens=settings.max_tokens,
            temperature=0.0 if greedy else settings.temperature,
            seed=derive(settings.seed, "evaluation"),
            progress=progress,
        )
        answers = [group[0] for group in sample_groups(client, self.ground, items, sampling)]
        lines = examined_lines(step, split, answers, self.facts, self.item_facts)
        rollouts = [one for one in answers if not isinstance(one, Failure)]
        return _Asked(evaluation=self._evaluation(rollouts), lines=lines, rollouts=rollouts)

    def _evaluation(self, rollouts: Sequence[JointRollout]) -> JointEvaluation:
        return JointEvaluation(
            {
                subject.value: Evaluation(
                    subject.labels, tuple(_answered(one, place) for one in rollouts)
                )
                for place, subject in enumerate(self.ground.task.subjects)
            }
        )

    def _information(
        self, trainer: tinker.TrainingClient, items: Sequence[JointItem]
    ) -> dict[str, float]:
        """Return how much the paper decides about each label, in nats, from all pairs' probabilities."""
        choices = self.ground.choices()
        prompts = [self.ground.prompt(item) for item in items]
        openings = [self.ground.opening(labels) for labels in choices]
        pairs = label_probabilities(trained_logprobs(trainer, prompts, openings)).tolist()
        told: dict[str, float] = {}
        for place, subject in enumerate(self.ground.task.subjects):
            alone = [
                [
                    math.fsum(
                        p for p, labels in zip(row, choices, strict=True) if labels[place] == label
                    )
                    for label in subject.labels
                ]
                for row in pairs
            ]
            told[subject.value] = label_information(np.array(alone))
        return told

    def trace(self) -> Mapping[str, float]:
        """See Course."""
        return self.reward.trace()

    @property
    def alarms(self) -> Sequence[Alarm]:
        """See Course."""
        return self.watch.alarms

    def state(self) -> object:
        """See Course."""
        return {"watch": self.watch.state(), "reward": self.reward.state()}

    def restore(self, state: object) -> None:
        """See Course."""
        kept = cast(Mapping[str, object], state)
        self.watch.restore(kept["watch"])
        self.reward.restore(kept["reward"])

    def close(self) -> None:
        """See Course; nothing is held open."""


def _answered(rollout: JointRollout, place: int) -> Answered:
    answer = rollout.answer.alone(place)
    return Answered(
        item=rollout.item.paper.id,
        gold=rollout.item.golds[place],
        predicted=answer.predicted,
        outcome=answer.outcome.value,
        parse_ok=answer.parse_ok,
        confidence=answer.confidence,
        lenient=answer.lenient,
    )
