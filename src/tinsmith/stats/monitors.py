"""Monitors of a run and the alarms they raise: collapse, same responses, failures, determinism, idle experts.

An alarm is raised when its condition begins and again only after the condition had ended. The policy at step 0 is the
base model: it is remembered, but nothing it does is a collapse of the training; a judge may fail from the start. While
no answer can be read, that is the only alarm on labels: shares, recalls and information would be those of no answers.
More samples of a policy whose failure is fixed per prompt teach nothing; another temperature, forced options, or a few
examples may.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from tinsmith.stats.groups import LabelGroups, group_census
from tinsmith.stats.intervals import Interval
from tinsmith.stats.rates import ClassMetric, Confusion, Metric
from tinsmith.types.confusion_scores import chance
from tinsmith.types.errors import CheckpointError, ConfigError, DataError


class AlarmKind(StrEnum):
    """Kinds of alarm."""

    UNREAD = "unread"  # Hardly any answer keeps the contract; whatever else is told of labels means nothing then.
    SHARE = "predicted_share"  # One label has most of the answers.
    RECALL = "min_class_recall"  # A label is hardly ever found.
    INFORMATION = "label_mi"  # The answer does not depend on the paper.
    GROUPS = "informative_groups"  # A label's groups carry no gradient any more.
    CHANCE = "balanced_accuracy"  # The recalls are no better than guessing.
    GOODHART = "goodhart"  # The training reward rises while the classifier gets worse.
    SAME_TEXT = "same_text"  # Many prompts get the same response.
    JUDGE_FAILED = "judge_failed"  # Responses have no reward, because their judge failed.
    DETERMINISM = "determinism"
    """Prompts are always right or always wrong: groups carry no gradient, and more samples will not help."""
    ROLLOUTS_FAILED = "rollouts_failed"
    """Responses without a reward: a function of the task failed, or sampling did."""
    IDLE_EXPERTS = "idle_experts"  # Many of a mixture's experts get no token.


@dataclass(frozen=True, slots=True)
class Alarm:
    """Alarm at one step; `label` is None if it concerns all labels."""

    kind: AlarmKind
    label: str | None
    value: float
    threshold: float
    step: int
    message: str
    task: str | None = None  # The task that is meant, where an answer is to several.

    @property
    def key(self) -> str:
        """Name in metrics.jsonl: alarm/kind, then /task and /label if set."""
        return "/".join(["alarm", self.kind, *(name for name in (self.task, self.label) if name)])

    def of_task(self, task: str) -> Alarm:
        """Return the alarm with the name of its task, if several tasks are monitored."""
        return replace(self, task=task, message=f"{task}: {self.message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits at which an alarm is raised."""

    min_read: float = 0.05  # Share of the answers that keep the contract.
    read_answers: int = 4  # Fewest answers to judge that by.
    max_share: float = 0.75
    share_evaluations: int = 3  # Evaluations running with a label above `max_share`.
    min_recall: float = 0.05
    min_information: float = 0.01  # Nats.
    min_informative_rate: float = 0.05
    group_steps: int = 20  # Steps over which informative groups are counted.
    group_count: int = 30  # Fewest groups of a label in those steps to judge by.
    goodhart_drop: float = 0.05  # Macro-F1 below its best while the training reward is above what it was then ...
    goodhart_evaluations: int = 2  # ... in this many evaluations running.

    def __post_init__(self) -> None:
        shares = ("min_read", "max_share", "min_recall", "min_informative_rate", "goodhart_drop")
        counts = ("read_answers", "share_evaluations", "group_steps", "group_count", "goodhart_evaluations")
        for names, kind, low, high, allowed in (
            (shares, "a share", 0.0, 1.0, "0 to 1"),
            (counts, "a number", 1, math.inf, "1 and more"),
        ):
            for name in names:
                if not low <= getattr(self, name) <= high:
                    what = f"this limit must be {kind}"
                    raise ConfigError(what, field=name, value=getattr(self, name), allowed=allowed)
        if not self.min_information >= 0.0:
            what = "the smallest information must not be negative"
            raise ConfigError(what, field="min_information", value=self.min_information)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Figures of one evaluation; None if not measured."""

    step: int
    confusion: Confusion
    balanced_accuracy: Interval | None = None
    label_information: float | None = None  # Nats, from the papers' exact label distributions.
    train_reward: float | None = None  # Mean total reward of the training rollouts since the last evaluation.


@dataclass(frozen=True, slots=True)
class Best:
    """The best macro-F1 so far, and the training reward at that evaluation."""

    step: int
    macro_f1: float
    train_reward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorState:
    """State of a monitor for resuming a run; frozen, of numbers, strings and tuples."""

    share_streaks: tuple[int, ...]  # Per label, evaluations running above the largest share.
    steps: tuple[tuple[LabelGroups, ...], ...] = ()  # Per step of the window, the groups of each label.
    best: Best | None = None
    goodhart_streak: int = 0
    active: tuple[str, ...] = ()  # Keys of the alarms whose condition holds.
    alarms: tuple[Alarm, ...] = ()


@dataclass(slots=True)
class CollapseMonitor:
    """Collapse monitor: raises the alarms of `Limits`; observe steps in order."""

    labels: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)
    _state: MonitorState | None = None

    def state(self) -> MonitorState:
        """Return the monitor's state."""
        return self._state or MonitorState(share_streaks=(0,) * len(self.labels))

    def restore(self, state: MonitorState) -> None:
        """Restore the monitor's state."""
        widths = {len(state.share_streaks), *(len(step) for step in state.steps)}
        if widths != {len(self.labels)}:
            what = "this collapse monitor belongs to another task"
            raise CheckpointError(what, field="labels", value=sorted(widths), allowed=str(len(self.labels)))
        self._state = state

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Every alarm raised so far, oldest first."""
        return self.state().alarms

    def observe_evaluation(self, signals: Signals) -> tuple[Alarm, ...]:
        """Observe one evaluation; return the alarms that it raises."""
        if signals.confusion.labels != self.labels:
            raise DataError("the monitor watches other labels", value=signals.confusion.labels)
        self._remember(signals)
        counts = signals.confusion.counts
        total = int(counts.sum())
        unread = self._unread(signals.step, total - int(counts[:, -1].sum()), total)
        kinds = {kind for kind in AlarmKind if kind is not AlarmKind.GROUPS}
        if unread or signals.step == 0:
            return self._begin(unread, kinds)
        looks = (self._share, self._recall, self._information, self._chance, self._goodhart)
        return self._begin([alarm for look in looks for alarm in look(signals)], kinds)

    def observe_answers(self, step: int, read: int, requested: int) -> tuple[Alarm, ...]:
        """Observe the share of a training step's answers that parse; return the alarm if it is raised."""
        return self._begin(self._unread(step, read, requested), {AlarmKind.UNREAD})

    def observe_groups(self, step: int, census: Mapping[str, LabelGroups]) -> tuple[Alarm, ...]:
        """Observe the groups of one training step; return the alarms that it raises.

        Judged over the last `group_steps` steps, and only with `group_count` groups of a label.
        """
        state = self.state()
        row = tuple(census.get(label, LabelGroups()) for label in self.labels)
        steps = (*state.steps, row)[-self.limits.group_steps :]
        self._state = replace(state, steps=steps)
        limit, holding = self.limits.min_informative_rate, list[Alarm]()
        for i, label in enumerate(self.labels):
            window = sum((row[i] for row in steps), LabelGroups())
            rate = window.informative_rate
            readable = f"alarm/{AlarmKind.UNREAD}" not in state.active
            if readable and window.groups >= self.limits.group_count and rate < limit:
                message = (
                    f"{rate:.1%} of the last {window.groups} groups of {label} carry a gradient "
                    f"(limit {limit:.0%}): {window.all_wrong / window.groups:.0%} all wrong, "
                    f"{window.all_right / window.groups:.0%} all right"
                )
                holding.append(Alarm(AlarmKind.GROUPS, label, rate, limit, step, message))
        return self._begin(holding, {AlarmKind.GROUPS})

    def _remember(self, signals: Signals) -> None:
        state, limits = self.state(), self.limits
        shares = signals.confusion.class_score(ClassMetric.PREDICTED_SHARE)
        streaks = tuple(
            streak + 1 if shares[label] > limits.max_share and signals.step > 0 else 0
            for label, streak in zip(self.labels, state.share_streaks, strict=True)
        )
        best, goodhart = state.best, 0
        if signals.train_reward is not None:
            score = signals.confusion.score(Metric.MACRO_F1)
            if best is None or score > best.macro_f1:
                best = Best(signals.step, score, signals.train_reward)
            elif score < best.macro_f1 - limits.goodhart_drop and signals.train_reward > best.train_reward:
                goodhart = state.goodhart_streak + 1
        self._state = replace(state, share_streaks=streaks, best=best, goodhart_streak=goodhart)

    def _unread(self, step: int, read: int, requested: int) -> Sequence[Alarm]:
        limit = self.limits.min_read
        if requested < self.limits.read_answers or read >= limit * requested:
            return []
        share = read / requested
        message = (
            f"{'hardly any' if read else 'no'} answer could be read: {share:.1%} of {requested} keep the contract "
            f"(limit {limit:.0%}); scores by label mean nothing until they do. Supervised steps first (sft_steps), "
            "another prompt or contract, or more max_tokens may help"
        )
        return [Alarm(AlarmKind.UNREAD, None, share, limit, step, message)]

    def _share(self, signals: Signals) -> Sequence[Alarm]:
        limit, shares = self.limits.max_share, signals.confusion.class_score(ClassMetric.PREDICTED_SHARE)
        text = "{} has {:.1%} of all answers, above {:.0%} in {} evaluations running"
        return [
            Alarm(AlarmKind.SHARE, label, share, limit, signals.step, text.format(label, share, limit, streak))
            for (label, share), streak in zip(shares.items(), self.state().share_streaks, strict=True)
            if streak >= self.limits.share_evaluations
        ]

    def _recall(self, signals: Signals) -> Sequence[Alarm]:
        limit, shares = self.limits.min_recall, signals.confusion.class_score(ClassMetric.PREDICTED_SHARE)
        text = "recall of {} is {:.3f} (limit {:.2f}); it has {:.1%} of all answers"
        return [
            Alarm(AlarmKind.RECALL, label, value, limit, signals.step, text.format(label, value, limit, shares[label]))
            for label, value in signals.confusion.class_score(ClassMetric.RECALL).items()
            if not math.isnan(value) and value < limit
        ]

    def _information(self, signals: Signals) -> Sequence[Alarm]:
        value, limit = signals.label_information, self.limits.min_information
        if value is None or value >= limit:
            return []
        message = (
            f"the answer carries {value:.4f} nats about the paper (limit {limit:g}): "
            "all papers get much the same answer"
        )
        return [Alarm(AlarmKind.INFORMATION, None, value, limit, signals.step, message)]

    def _chance(self, signals: Signals) -> Sequence[Alarm]:
        interval, golds = signals.balanced_accuracy, signals.confusion.counts.sum(axis=1).nonzero()[0].tolist()
        if interval is None or interval.above(level := chance(golds)):
            return []
        value = signals.confusion.score(Metric.BALANCED_ACCURACY)
        message = (
            f"balanced accuracy {value:.3f} {interval} is not above chance ({level:.3f}): "
            "no sign that anything was learnt"
        )
        return [Alarm(AlarmKind.CHANCE, None, value, level, signals.step, message)]

    def _goodhart(self, signals: Signals) -> Sequence[Alarm]:
        state = self.state()
        if state.goodhart_streak < self.limits.goodhart_evaluations or state.best is None:
            return []
        value, best = signals.confusion.score(Metric.MACRO_F1), state.best
        message = (
            f"the training reward rose from {best.train_reward:.3f} to {signals.train_reward:.3f} "
            f"since step {best.step}, macro-F1 fell from {best.macro_f1:.3f} to {value:.3f}"
        )
        drop = best.macro_f1 - self.limits.goodhart_drop
        return [Alarm(AlarmKind.GOODHART, None, value, drop, signals.step, message)]

    def _begin(self, holding: Sequence[Alarm], kinds: set[AlarmKind]) -> tuple[Alarm, ...]:
        state = self.state()
        judged = tuple(f"alarm/{kind}" for kind in kinds)
        others = [key for key in state.active if key not in judged and key.rpartition("/")[0] not in judged]
        begun = tuple(alarm for alarm in holding if alarm.key not in state.active)
        self._state = replace(
            state, active=tuple(sorted([*others, *(alarm.key for alarm in holding)])), alarms=(*state.alarms, *begun)
        )
        return begun


MAX_SAME_TEXT = 0.5  # Share of responses that are the same, beyond the largest share of a right answer.
MAX_JUDGE_FAILED = 0.05
MAX_FAILED = 0.05  # Share of rollouts without a reward.


class _State(msgspec.Struct, frozen=True, kw_only=True):
    alarms: tuple[Alarm, ...] = ()


class _KindsState(_State, frozen=True, kw_only=True):
    holding: tuple[AlarmKind, ...] = ()


class _StepsState(_State, frozen=True, kw_only=True):
    steps: tuple[tuple[tuple[float, ...], ...], ...] = ()  # Rewards by step and group.
    holding: bool = False


StateT = TypeVar("StateT", bound=_State)


class _Monitor(Generic[StateT]):
    """Base of monitors whose alarms are raised once when their condition begins; observe steps in order."""

    def __init__(self, nothing: StateT) -> None:
        self._state = nothing

    @property
    def alarms(self) -> Sequence[Alarm]:
        return self._state.alarms

    def state(self) -> object:
        return msgspec.to_builtins(self._state)

    def restore(self, state: object) -> None:
        self._state = msgspec.convert(state, type(self._state))


class ResponseMonitor(_Monitor[_KindsState]):
    """Monitor of free responses: one text for every prompt, and failed responses."""

    def __init__(self, right_share: float = 0.0) -> None:
        """Monitor responses; `right_share` is the largest share of prompts with one and the same right answer."""
        super().__init__(_KindsState())
        self._right_share = right_share

    def observe(
        self, step: int, texts: Sequence[tuple[str, str]], *, judge_failed: float = 0.0, failed: float = 0.0
    ) -> list[Alarm]:
        """Observe one evaluation; return the alarms that it raises.

        Args:
            step: the step of the policy.
            texts: (prompt id, response), of one or more responses to each prompt.
            judge_failed: share of responses that the judge gave no verdicts on.
            failed: share of rollouts that came to nothing for another cause.
        """
        judge = (
            f"the judge gave no verdicts on {judge_failed:.1%} of the responses "
            f"(limit {MAX_JUDGE_FAILED:.0%}); they are left out"
        )
        lost = f"{failed:.1%} of the rollouts failed (limit {MAX_FAILED:.0%}); they have no reward"
        shares = (
            (AlarmKind.JUDGE_FAILED, judge_failed, MAX_JUDGE_FAILED, judge),
            (AlarmKind.ROLLOUTS_FAILED, failed, MAX_FAILED, lost),
        )
        failures = [Alarm(kind, None, share, most, step, text) for kind, share, most, text in shares if share > most]
        holding = [*(_same_text(step, texts, self._right_share) if step > 0 else ()), *failures]
        begun = [alarm for alarm in holding if alarm.kind not in self._state.holding]
        kinds = tuple(alarm.kind for alarm in holding)
        self._state = _KindsState(alarms=(*self._state.alarms, *begun), holding=kinds)
        return begun


def _same_text(step: int, texts: Sequence[tuple[str, str]], right_share: float) -> list[Alarm]:
    """Compare the largest mean share of one text with half of all, or half of what no right answer accounts for."""
    by_prompt: dict[str, Counter[str]] = defaultdict(Counter[str])
    for prompt, text in texts:
        by_prompt[prompt][text] += 1
    shares: dict[str, float] = defaultdict(float)
    for counted in by_prompt.values():
        for text, count in counted.items():
            shares[text] += count / counted.total() / len(by_prompt)
    text = max(shares, key=lambda each: (shares[each], each), default="")
    most = right_share + MAX_SAME_TEXT * (1 - right_share)
    if len(by_prompt) < 2 or (share := shares[text]) <= most:
        return []
    shown = text if len(text) <= 60 else text[:57] + "..."
    message = f"{share:.0%} of the responses are the same (limit {most:.0%}): {shown!r}"
    return [Alarm(AlarmKind.SAME_TEXT, None, share, most, step, message)]


MAX_DETERMINISM = 0.9
DETERMINISM_STEPS = 20  # Steps that are looked back on ...
GROUPS = 30  # ... and the fewest groups in them to judge by.
LEAST_EXPECTED = 0.2  # Share of mixed groups expected by chance below which the task is nearly solved, or hardly ever.


class DeterminismMonitor(_Monitor[_StepsState]):
    """Watches groups for prompts that are always right or always wrong."""

    def __init__(self) -> None:
        super().__init__(_StepsState())

    def observe(self, step: int, groups: Sequence[Sequence[float]]) -> list[Alarm]:
        """Observe the rewards of a step's groups; return the alarm if it is raised."""
        steps = (*self._state.steps, tuple(tuple(group) for group in groups))[-DETERMINISM_STEPS:]
        census = group_census([group for each in steps for group in each])
        index, begun = census.determinism, list[Alarm]()
        holds = census.groups >= GROUPS and census.expected >= LEAST_EXPECTED and index > MAX_DETERMINISM
        if holds and not self._state.holding:
            message = (
                f"{census.observed:.1%} of {census.groups} groups have rewards that differ, where chance would give "
                f"{census.expected:.1%}: prompts are always right or always wrong (index {index:.2f}, "
                f"limit {MAX_DETERMINISM}), and more samples teach nothing"
            )
            begun = [Alarm(AlarmKind.DETERMINISM, None, index, MAX_DETERMINISM, step, message)]
        self._state = _StepsState(steps=steps, holding=holds, alarms=(*self._state.alarms, *begun))
        return begun


MAX_IDLE = 0.25  # Share of all experts without a token in a step.
IDLE_STEPS = 3  # Steps running with more than that.


@dataclass(slots=True)
class ExpertMonitor:
    """Monitor of idle experts; observe steps in order."""

    _running: int = 0  # Steps running with too many idle experts.

    def observe(self, step: int, idle: float) -> list[Alarm]:
        """Observe the share of experts without a token in a training step; return the alarm if it is raised."""
        self._running = self._running + 1 if idle > MAX_IDLE else 0
        if self._running != IDLE_STEPS:
            return []
        message = (
            f"{idle:.0%} of the experts got no token, in {IDLE_STEPS} steps running "
            f"(limit {MAX_IDLE:.0%}): the router has stopped using them"
        )
        return [Alarm(AlarmKind.IDLE_EXPERTS, None, idle, MAX_IDLE, step, message)]
