"""Monitors of any run: same responses and failures, prompts always right or wrong, idle experts of a mixture.

An alarm is raised when its condition begins and again only after the condition had ended. The policy at step 0 is the
base model: nothing it does is a collapse of the training, but a judge may fail from the start. More samples of a policy
whose failure is fixed per prompt teach nothing; another temperature, forced options, or a few examples may.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

from tinsmith.stats.groups import group_census


class AlarmKind(StrEnum):
    """What was seen."""

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
    """Responses have no reward, because a function of the task failed, or nobody sampled them."""
    IDLE_EXPERTS = "idle_experts"  # Many of a mixture's experts get no token.


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing seen at one step; `label` is None where all labels are meant."""

    kind: AlarmKind
    label: str | None
    value: float
    threshold: float
    step: int
    message: str
    task: str | None = None  # The task that is meant, where an answer is to several.

    @property
    def key(self) -> str:
        """The name in metrics.jsonl: alarm/kind, then /task and /label where it has them."""
        return "/".join(["alarm", self.kind, *(name for name in (self.task, self.label) if name)])

    def of_task(self, task: str) -> Alarm:
        """Return the alarm as one of several tasks' that are watched; it says which."""
        return replace(self, task=task, message=f"{task}: {self.message}")


MAX_SAME_TEXT = 0.5  # Share of prompts that get the same text.
MAX_JUDGE_FAILED = 0.05
MAX_FAILED = 0.05  # Share of rollouts without a reward.


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """One examination."""

    step: int
    texts: tuple[tuple[str, str], ...]  # (prompt id, response), of one or more responses to each prompt.
    judge_failed: float = 0.0  # Share of responses that the judge gave no verdicts on.
    failed: float = 0.0  # Share of rollouts that came to nothing for another cause.


class _State(msgspec.Struct, frozen=True):
    alarms: tuple[Alarm, ...] = ()
    holding: tuple[AlarmKind, ...] = ()


@dataclass(slots=True)
class ResponseMonitor:
    """Raises the alarms; feed it in the order of the steps."""

    _kept: _State = field(default_factory=_State)

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Every alarm raised so far, oldest first."""
        return self._kept.alarms

    def observe(self, seen: Responses) -> list[Alarm]:
        """Take one examination in; return the alarms that begin with it."""
        holding = [*_same_text(seen), *_failures(seen)]
        begun = [alarm for alarm in holding if alarm.kind not in self._kept.holding]
        kinds = tuple(alarm.kind for alarm in holding)
        self._kept = _State(alarms=(*self._kept.alarms, *begun), holding=kinds)
        return begun

    def state(self) -> object:
        """Return it as plain JSON values."""
        return msgspec.to_builtins(self._kept)

    def restore(self, state: object) -> None:
        """Go on from what `state` returned."""
        self._kept = msgspec.convert(state, _State)


def _same_text(seen: Responses) -> list[Alarm]:
    prompts = {prompt for prompt, _ in seen.texts}
    if seen.step == 0 or len(prompts) < 2:
        return []
    by_text: dict[str, set[str]] = defaultdict(set)
    for prompt, text in seen.texts:
        by_text[text].add(prompt)
    text = max(by_text, key=lambda each: (len(by_text[each]), each))
    share = len(by_text[text]) / len(prompts)
    if share <= MAX_SAME_TEXT:
        return []
    shown = text if len(text) <= 60 else text[:57] + "..."
    message = f"{share:.0%} of the prompts get the same response (limit {MAX_SAME_TEXT:.0%}): {shown!r}"
    return [Alarm(AlarmKind.SAME_TEXT, None, share, MAX_SAME_TEXT, seen.step, message)]


def _failures(seen: Responses) -> Iterator[Alarm]:
    judge = (
        f"the judge gave no verdicts on {seen.judge_failed:.1%} of the responses "
        f"(limit {MAX_JUDGE_FAILED:.0%}); they are left out"
    )
    failed = f"{seen.failed:.1%} of the rollouts failed (limit {MAX_FAILED:.0%}); they have no reward"
    for kind, share, limit, message in (
        (AlarmKind.JUDGE_FAILED, seen.judge_failed, MAX_JUDGE_FAILED, judge),
        (AlarmKind.ROLLOUTS_FAILED, seen.failed, MAX_FAILED, failed),
    ):
        if share > limit:
            yield Alarm(kind, None, share, limit, seen.step, message)


MAX_DETERMINISM = 0.9
DETERMINISM_STEPS = 20  # Steps that are looked back on ...
GROUPS = 30  # ... and the fewest groups in them to judge by.
LEAST_EXPECTED = 0.2  # Share of mixed groups expected by chance below which the task is nearly solved, or hardly ever.


class _DeterminismState(msgspec.Struct, frozen=True, kw_only=True):
    steps: tuple[tuple[tuple[float, ...], ...], ...] = ()
    holding: bool = False
    alarms: tuple[Alarm, ...] = ()


@dataclass(slots=True)
class DeterminismMonitor:
    """Raises the alarm; feed it in the order of the steps."""

    _kept: _DeterminismState = field(default_factory=_DeterminismState)

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Every alarm raised so far, oldest first."""
        return self._kept.alarms

    def observe(self, step: int, groups: Sequence[Sequence[float]]) -> list[Alarm]:
        """Take the rewards of a step's groups in; return the alarm that begins with it."""
        steps = (*self._kept.steps, tuple(tuple(group) for group in groups))[-DETERMINISM_STEPS:]
        seen = group_census([group for each in steps for group in each])
        holds = seen.groups >= GROUPS and seen.expected >= LEAST_EXPECTED and seen.determinism > MAX_DETERMINISM
        begun: list[Alarm] = []
        if holds and not self._kept.holding:
            message = (
                f"{seen.observed:.1%} of {seen.groups} groups have rewards that differ, where chance would give "
                f"{seen.expected:.1%}: prompts are always right or always wrong (index {seen.determinism:.2f}, "
                f"limit {MAX_DETERMINISM}), and more samples teach nothing"
            )
            index = seen.determinism
            begun = [Alarm(AlarmKind.DETERMINISM, None, index, MAX_DETERMINISM, step, message)]
        self._kept = _DeterminismState(steps=steps, holding=holds, alarms=(*self._kept.alarms, *begun))
        return begun

    def state(self) -> object:
        """Return it as plain JSON values."""
        return msgspec.to_builtins(self._kept)

    def restore(self, state: object) -> None:
        """Go on from what `state` returned."""
        self._kept = msgspec.convert(state, _DeterminismState)


MAX_IDLE = 0.25  # Share of all experts without a token in a step.
IDLE_STEPS = 3  # Steps running with more than that.


@dataclass(slots=True)
class ExpertMonitor:
    """Raises the alarm; feed it in the order of the steps."""

    _running: int = 0  # Steps running with too many idle experts.

    def observe(self, step: int, idle: float) -> list[Alarm]:
        """Take the share of experts without a token in a training step in; return the alarm that begins with it."""
        self._running = self._running + 1 if idle > MAX_IDLE else 0
        if self._running != IDLE_STEPS:
            return []
        message = (
            f"{idle:.0%} of the experts got no token, in {IDLE_STEPS} steps running "
            f"(limit {MAX_IDLE:.0%}): the router has stopped using them"
        )
        return [Alarm(AlarmKind.IDLE_EXPERTS, None, idle, MAX_IDLE, step, message)]
