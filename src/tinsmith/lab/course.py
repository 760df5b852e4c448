"""Training and evaluation procedure of a run on any subject."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, cast

import tinker

from tinsmith.data.slices.splits import Split
from tinsmith.lab.confidence import watched_confidence
from tinsmith.lab.grouping import Line
from tinsmith.lab.live.progress import Progress, silent
from tinsmith.lab.live.watch import Examinee, Judged, Watch, watched_information
from tinsmith.lab.policy import ExactGradient, drift_metrics, env_nll_metrics
from tinsmith.lab.rollouts import A, Failure, I, Rollout, Sampler, Sampling, sample_groups
from tinsmith.lab.runs.records import Score, SectionRecord
from tinsmith.lab.schedule import subset
from tinsmith.lab.settings import CommonSettings, Watched
from tinsmith.lab.subject import Subject, line_of
from tinsmith.types.seeds import derive


class Decoding(StrEnum):
    """Decoding of an evaluation's answers; the value follows the split's name."""

    SAMPLED = ""
    GREEDY = "_greedy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """Result of an evaluation."""

    metrics: Mapping[str, float]
    lines: Sequence[Line] = ()  # Its rollouts.

    def __or__(self, other: Tested) -> Tested:
        return Tested(metrics={**self.metrics, **other.metrics}, lines=[*self.lines, *other.lines])


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Result of an evaluation of a policy in training, and its meaning."""

    tested: Tested
    judged: Judged
    answers_s: float = 0.0  # Seconds waited for answers.


@dataclass(frozen=True, slots=True, kw_only=True)
class Course(Generic[I, A]):
    """Evaluation schedule of a run: items, decodings, watch and test."""

    subject: Subject[I, A]
    settings: CommonSettings
    watch: Watch[I, A] = field(default_factory=Watch[Any, Any])
    decodings: Sequence[Decoding] = tuple(Decoding)
    samples: int = 1  # Answers to each item, where they are sampled.
    forks: int = 1  # Second replies for each first one, each turn with an advantage of its own; 1: nothing forks.
    agents: Mapping[int, int] = field(default_factory=lambda: {0: 1})
    """Number of jointly trained adapters, keyed by the step from which it applies."""
    exact: Callable[[], ExactGradient[I]] | None = None
    """Function that returns the exact gradient of a term in place of the sampled one; None for none."""
    controls: Mapping[str, Subject[I, A]] = field(default_factory=dict[str, Subject[I, A]])
    """Subjects that ask the test's items too, by the split's name."""
    later_steps: float | None = None  # Time of a step by reward, as a share of the first one's; None: not known.
    tests_last: bool = False  # Whether the last policy is tested beside the chosen one.
    also_tested: Callable[[tinker.SamplingClient, int], Tested] | None = None
    """Further test, of the chosen policy and its step."""
    other_requests: int = 0  # Requests that this takes.
    keep: Callable[[Sequence[SectionRecord]], None] | None = None  # Is given the page's sections, at the end.

    at_end: Callable[[Examinee], Mapping[str, float]] | None = None
    """Function that evaluates the last policy further, and returns metrics."""

    @property
    def train_items(self) -> Sequence[I]:
        """Items to train on, without those set aside."""
        items = [one for one in self.subject.items(Split.TRAIN) if not self.subject.aside(one)]
        return subset(items, self.settings.train_items, self.subject.unit)

    @property
    def aside_items(self) -> Sequence[I]:
        """Items to train on in batches of their own, where these are interleaved."""
        return [one for one in self.subject.items(Split.TRAIN) if self.subject.aside(one)]

    @property
    def validation_items(self) -> Sequence[I]:
        """Validation items of the evaluations during training."""
        return subset(self.subject.items(Split.VALIDATION), self.settings.eval_items, self.subject.unit)

    @property
    def test_items(self) -> Sequence[I]:
        """Items of the last evaluation."""
        return subset(self.subject.items(Split.TEST), self.settings.test_items, self.subject.unit)

    @property
    def test_worth(self) -> tuple[float, float]:
        """Answers of the test relative to an evaluation's, and further ones if the last policy is not the best."""
        an_item = sum(1 if one is Decoding.GREEDY else self.samples for one in self.decodings)
        a_policy, evaluation = an_item * len(self.test_items), an_item * max(1, len(self.validation_items))
        chosen = (1 + len(self.controls)) * a_policy + self.other_requests
        return chosen / evaluation, a_policy / evaluation if self.tests_last else 0.0

    def examine(self, policy: Examinee) -> Examined:
        """Evaluate a policy during training."""
        step, items = policy.step, self.validation_items
        if not items:
            return Examined(tested=Tested(metrics={}), judged=Judged(score=Score(float(step), 0.0)))
        began = time.perf_counter()
        tested, by_split = self._evaluated(
            policy.policy or policy.client, self.subject, items, step, "eval", policy.progress
        )
        answers_s = time.perf_counter() - began
        groups = by_split[f"eval{self.decodings[0].value}"]
        judged = self.watch.judge(policy, groups, tested.metrics)
        read = [one for group in groups for one in group if not isinstance(one, Failure)]
        drift = drift_metrics(policy.base(), read)
        more: Mapping[str, float] = {}
        if step == self.settings.steps:
            if self.keep is not None and not self.test_items:
                self.keep(self.subject.sections({"eval": read}))
            if self.at_end is not None:
                more = self.at_end(policy)
        rollouts = [[one for one in group if isinstance(one, Rollout)] for group in groups]
        watched: Mapping[str, float] = {}
        if self.settings.watch is Watched.MUTUAL_INFORMATION:
            watched = watched_information(policy.trainer, rollouts)
        elif self.settings.watch is Watched.ENVIRONMENT:
            watched = env_nll_metrics(policy.client, read)
        elif self.settings.watch is Watched.CONFIDENCE:
            seed = derive(self.settings.seed, "confidence", step)
            watched = watched_confidence(policy.trainer, self.subject, rollouts, seed)
        metrics = {**judged.metrics, **drift, **more, **watched}
        return Examined(tested=tested | Tested(metrics=metrics), judged=judged, answers_s=answers_s)

    def test(
        self, chosen: Sampler, chosen_step: int, last: Sampler | None, last_step: int, progress: Progress = silent
    ) -> Tested:
        """Evaluate the chosen policy as `test`, and the last as `test_last` (None: the chosen one)."""
        items = self.test_items
        if not items:
            return Tested(metrics={})
        tested, answered = self._evaluated(chosen, self.subject, items, chosen_step, "test", progress)
        for name, subject in self.controls.items():
            controlled, more = self._evaluated(chosen, subject, items, chosen_step, name, progress)
            tested |= controlled
            answered |= more
        if self.keep is not None:
            read = {
                split: [one for group in groups for one in group if isinstance(one, Rollout)]
                for split, groups in answered.items()
            }
            self.keep(self.subject.sections(read))
        if self.tests_last and last is not None:
            tested |= self._evaluated(last, self.subject, items, last_step, "test_last", progress)[0]
        elif self.tests_last:
            same = tested.metrics.items()
            tested |= Tested(metrics={key.replace("test", "test_last", 1): value for key, value in same})
        if self.also_tested is None or isinstance(chosen, Sequence):
            return tested
        return tested | self.also_tested(chosen, chosen_step)

    def _evaluated(
        self, client: Sampler, subject: Subject[I, A], items: Sequence[I], step: int, name: str, progress: Progress
    ) -> tuple[Tested, dict[str, list[list[Rollout[I, A] | Failure[I]]]]]:
        """Evaluate a client on items; return the metrics, and the answers by split, one split per decoding."""
        tested = Tested(metrics={})
        answered: dict[str, list[list[Rollout[I, A] | Failure[I]]]] = {}
        for decoding in self.decodings:
            greedy, split = decoding is Decoding.GREEDY, f"{name}{decoding.value}"
            sampling = Sampling(
                samples=1 if greedy else self.samples,
                max_tokens=self.settings.max_tokens,
                temperature=0.0 if greedy else self.settings.temperature,
                seed=derive(self.settings.seed, "evaluation"),
                progress=progress,
            )
            groups = sample_groups(client, subject, items, sampling)
            lines = [line_of(subject, step, split, one) for group in groups for one in group]
            tested |= Tested(metrics=subject.figures(groups, split), lines=lines)
            answered[split] = groups
        return tested, answered

    def state(self) -> object:
        """Return the state for resuming a run, as plain JSON values."""
        return {"subject": self.subject.state(), "watch": self.watch.state()}

    def restore(self, state: object) -> None:
        """Restore the state from `state`."""
        saved = cast(Mapping[str, object], state)
        self.subject.restore(saved["subject"])
        self.watch.restore(saved["watch"])
