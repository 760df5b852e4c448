"""The course of tasks with rubrics: the reward is what a judge finds fulfilled, the examination the held-out tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tinker

from tinsmith.lab.course import Examined, Examinee, Score, Tested
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.policy import told_drift
from tinsmith.lab.progress import Progress, untold
from tinsmith.lab.rollout_metrics import Line, examined_lines
from tinsmith.lab.rollouts import Failure, Sampling, sample_groups
from tinsmith.lab.schedule import subset
from tinsmith.lab.settings import CommonSettings
from tinsmith.stats.alarms import Alarm
from tinsmith.stats.response_monitor import ResponseMonitor, Responses
from tinsmith.studies.rubrics.ground import JUDGE, Judgement, RubricGround, RubricRollout
from tinsmith.studies.rubrics.splitting import RubricSplit
from tinsmith.studies.rubrics.task import RubricTask
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricTerms:
    """The reward of a response."""

    rubric: float
    """The pass rate, or the tree's score; from 0 to 1."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """See Terms."""
        return ("rubric",)

    @property
    def total(self) -> float:
        """See Terms."""
        return self.rubric


@dataclass(slots=True, kw_only=True)
class RubricCourse:
    """See Course; its methods are described there."""

    ground: RubricGround
    split: RubricSplit
    settings: CommonSettings
    eval_samples: int
    """Responses to each held-out prompt in an examination."""
    monitor: ResponseMonitor = field(default_factory=ResponseMonitor)

    @property
    def train_items(self) -> Sequence[RubricTask]:
        """The tasks to train on."""
        return subset(self.split.train, self.settings.train_items)

    @property
    def held_out(self) -> Sequence[RubricTask]:
        """The tasks that are only examined; those of training where none are held out."""
        return subset(self.split.test or self.split.train, self.settings.eval_items)

    @property
    def last_look(self) -> float:
        """See Course; nothing is kept for a last look."""
        return 0.0

    @property
    def forks(self) -> int:
        """See Course."""
        return 1

    @property
    def by_turn(self) -> bool:
        """See Course."""
        return False

    def score(self, rollouts: Sequence[RubricRollout]) -> list[RubricTerms]:
        """See Course."""
        return [RubricTerms(rubric=one.answer.score) for one in rollouts]

    def exact(self) -> None:
        """See Course; a response is no choice among labels."""

    def saw(self, step: int, groups: Sequence[ScoredGroup[RubricTask, Judgement]]) -> list[Alarm]:
        """See Course; what is watched is the examinations."""
        del step, groups
        return []

    def train_metrics(
        self, groups: Sequence[ScoredGroup[RubricTask, Judgement]]
    ) -> dict[str, float]:
        """See Course."""
        failures = [one for group in groups for one in group.failures]
        rollouts = [one.rollout for group in groups for one in group.scored]
        metrics = {"train/judge_failed": _failed(failures, len(rollouts) + len(failures))}
        if rollouts:
            metrics["train/pass_rate"] = _mean([one.answer.pass_rate for one in rollouts])
        return metrics

    def facts(self, rollout: RubricRollout) -> Line:
        """See Course."""
        verdicts = rollout.answer.verdicts
        return {
            "pass_rate": rollout.answer.pass_rate,
            "verdicts": [{"passed": one.passed, "rationale": one.rationale} for one in verdicts],
        }

    def item_facts(self, item: RubricTask) -> Line:
        """See Course."""
        del item
        return {}

    def examine(self, policy: Examinee, step: int) -> Examined:
        """Have the held-out tasks answered, sampled and greedily."""
        told = policy.progress
        metrics, lines, sampled = self._asked(policy.client, step, "eval", told, greedy=False)
        more, others, _ = self._asked(policy.client, step, "eval_greedy", told, greedy=True)
        metrics |= told_drift(policy.base(), sampled)
        alarms = self.monitor.observe(
            Responses(
                step=step,
                texts=tuple((one.item.task_id, one.text) for one in sampled),
                judge_failed=metrics["eval/judge_failed"],
            )
        )
        return Examined(
            metrics={**metrics, **more},
            lines=[*lines, *others],
            score=Score(float(step), 0.0),
            alarms=alarms,
        )

    def _asked(
        self,
        client: tinker.SamplingClient,
        step: int,
        split: str,
        progress: Progress,
        *,
        greedy: bool,
    ) -> tuple[dict[str, float], list[Line], list[RubricRollout]]:
        settings = self.settings
        sampling = Sampling(
            samples=1 if greedy else self.eval_samples,
            max_tokens=settings.max_tokens,
            temperature=0.0 if greedy else settings.temperature,
            seed=derive(settings.seed, "evaluation"),
            progress=progress,
        )
        groups = sample_groups(client, self.ground, self.held_out, sampling)
        flat = [one for group in groups for one in group]
        kept = [one for one in flat if not isinstance(one, Failure)]
        failures = [one for one in flat if isinstance(one, Failure)]
        lines = examined_lines(step, split, flat, self.facts, self.item_facts)
        by_task = [
            [one.answer for one in group if not isinstance(one, Failure)] for group in groups
        ]
        rates = [_mean([one.pass_rate for one in each]) for each in by_task if each]
        scores = [_mean([one.score for one in each]) for each in by_task if each]
        texts = Counter(one.text for one in kept)
        metrics = {
            f"{split}/pass_rate": _mean(rates),
            f"{split}/score": _mean(scores),
            f"{split}/all_passed": _mean([float(one.answer.pass_rate == 1.0) for one in kept]),
            f"{split}/tokens/answer": _mean([float(len(one.tokens)) for one in kept]),
            f"{split}/distinct_texts": len(texts) / len(kept),
            f"{split}/judge_failed": _failed(failures, len(flat)),
        }
        return metrics, lines, kept

    def test(
        self,
        chosen: tinker.SamplingClient,
        chosen_step: int,
        last: tinker.SamplingClient | None,
        last_step: int,
        progress: Progress = untold,
    ) -> Tested:
        """Find nothing more: the last policy is the chosen one, and was examined on what is held out."""
        del chosen, chosen_step, last, last_step, progress
        return Tested(metrics={}, lines=[])

    def trace(self) -> Mapping[str, float]:
        """See Course; a reward here has no state."""
        return {}

    @property
    def alarms(self) -> Sequence[Alarm]:
        """See Course."""
        return self.monitor.alarms

    def state(self) -> object:
        """See Course."""
        return self.monitor.state()

    def restore(self, state: object) -> None:
        """See Course."""
        self.monitor.restore(state)

    def close(self) -> None:
        """Let go of the judge."""
        self.ground.judge.close()


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _failed(failures: Sequence[Failure[RubricTask]], total: int) -> float:
    return sum(one.where == JUDGE for one in failures) / total if total else 0.0
