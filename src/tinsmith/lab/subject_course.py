"""The course of a subject: its rewards as they are, and its held-out items examined, sampled and greedily."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

import tinker

from tinsmith.lab.course import Examined, Examinee, Score, Tested
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.policy import told_drift
from tinsmith.lab.progress import Progress, untold
from tinsmith.lab.rollout_metrics import Line, examined_lines
from tinsmith.lab.rollouts import A, Failure, I, Rollout, Sampling, sample_groups
from tinsmith.lab.schedule import subset
from tinsmith.lab.settings import CommonSettings
from tinsmith.lab.subject import SectionRecord, Side, Subject
from tinsmith.lab.terms import Terms
from tinsmith.stats.alarms import Alarm
from tinsmith.stats.response_monitor import ResponseMonitor, Responses
from tinsmith.types.seeds import derive


@dataclass(slots=True, kw_only=True)
class SubjectCourse(Generic[I, A]):
    """See Course; its methods are described there. The last policy is the one that is kept."""

    subject: Subject[I, A]
    settings: CommonSettings
    eval_samples: int
    """Answers to each held-out item, in a sampled evaluation."""
    keep: Callable[[Sequence[SectionRecord]], None]
    """Is given the page's sections, at the end."""
    monitor: ResponseMonitor = field(default_factory=ResponseMonitor)

    @property
    def ground(self) -> Subject[I, A]:
        """See Course."""
        return self.subject

    @property
    def train_items(self) -> Sequence[I]:
        """See Course."""
        return subset(self.subject.items(Side.TRAIN), self.settings.train_items)

    @property
    def examined(self) -> Sequence[I]:
        """What is examined: a fixed part of what is held out; of the training items where nothing is."""
        held_out = self.subject.items(Side.HELD_OUT) or self.subject.items(Side.TRAIN)
        return subset(held_out, self.settings.eval_items)

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

    def score(self, rollouts: Sequence[Rollout[I, A]]) -> list[Terms]:
        """See Course."""
        return [self.subject.terms(one) for one in rollouts]

    def exact(self) -> None:
        """See Course; an answer is no choice among labels."""

    def saw(self, step: int, groups: Sequence[ScoredGroup[I, A]]) -> list[Alarm]:
        """See Course; what is watched is the examinations."""
        del step, groups
        return []

    def train_metrics(self, groups: Sequence[ScoredGroup[I, A]]) -> Mapping[str, float]:
        """See Course."""
        found = [self.subject.figures([one.rollout for one in group.scored]) for group in groups]
        return {f"train/{name}": value for name, value in _means(found).items()}

    def facts(self, rollout: Rollout[I, A]) -> Line:
        """See Course."""
        return self.subject.facts(rollout)

    def item_facts(self, item: I) -> Line:
        """See Course."""
        del item
        return {}

    def examine(self, policy: Examinee, step: int) -> Examined:
        """Have the held-out items answered, sampled and greedily."""
        told = policy.progress
        metrics, lines, sampled = self._asked(policy.client, step, "eval", told, greedy=False)
        more, others, _ = self._asked(policy.client, step, "eval_greedy", told, greedy=True)
        metrics |= told_drift(policy.base(), sampled)
        alarms = self.monitor.observe(
            Responses(
                step=step,
                texts=tuple((one.item.prompt_id, one.text) for one in sampled),
                failed=metrics["eval/failed"],
            )
        )
        if step == self.settings.steps:
            self.keep(self.subject.sections(sampled))
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
    ) -> tuple[dict[str, float], list[Line], list[Rollout[I, A]]]:
        settings = self.settings
        sampling = Sampling(
            samples=1 if greedy else self.eval_samples,
            max_tokens=settings.max_tokens,
            temperature=0.0 if greedy else settings.temperature,
            seed=derive(settings.seed, "evaluation"),
            progress=progress,
        )
        groups = sample_groups(client, self.subject, self.examined, sampling)
        flat = [one for group in groups for one in group]
        lines = examined_lines(step, split, flat, self.facts, self.item_facts)
        by_item = [[one for one in group if not isinstance(one, Failure)] for group in groups]
        kept = [one for group in by_item for one in group]
        metrics = {
            "failed": 1.0 - len(kept) / len(flat),
            "tokens/answer": _mean([float(len(one.tokens)) for one in kept]),
            "distinct_texts": len({one.text for one in kept}) / len(kept),
            **_means([self._rewards(group) for group in by_item if group]),
            **_means([self.subject.figures(group) for group in by_item if group]),
        }
        return {f"{split}/{name}": value for name, value in metrics.items()}, lines, kept

    def _rewards(self, group: Sequence[Rollout[I, A]]) -> dict[str, float]:
        """Return the mean reward of one item's answers, and of each term."""
        terms = [self.subject.terms(one) for one in group]
        means = {name: _mean([getattr(one, name) for one in terms]) for name in terms[0].names()}
        return {
            "reward/total": _mean([one.total for one in terms]),
            **{f"reward/{name}": value for name, value in means.items()},
        }

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
        """See Course."""
        self.subject.close()


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every number over the items that have it."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for one in found:
        for name, value in one.items():
            values[name].append(value)
    return {name: _mean(values[name]) for name in sorted(values)}
