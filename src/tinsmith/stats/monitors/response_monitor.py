"""Watches free responses for collapse: one text that answers every prompt, and a judge that often fails.

An alarm is raised when its condition begins and again only after the condition had ended. The policy at step 0 is the
base model: nothing it does is a collapse of the training, but a judge may fail from the start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tinsmith.stats.monitors.alarms import Alarm, AlarmKind

MAX_SAME_TEXT = 0.5
"""Share of prompts that get the same text."""
MAX_JUDGE_FAILED = 0.05
MAX_FAILED = 0.05
"""Share of rollouts without a reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """One examination."""

    step: int
    texts: tuple[tuple[str, str], ...]
    """(prompt id, response), of one or more responses to each prompt."""
    judge_failed: float = 0.0
    """Share of responses that the judge gave no verdicts on."""
    failed: float = 0.0
    """Share of rollouts that came to nothing for another cause."""


@dataclass(slots=True)
class ResponseMonitor:
    """Raises the alarms; feed it in the order of the steps."""

    _alarms: list[Alarm] = field(default_factory=list[Alarm])
    _holding: list[AlarmKind] = field(default_factory=list[AlarmKind])

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Every alarm raised so far, oldest first."""
        return tuple(self._alarms)

    def observe(self, seen: Responses) -> list[Alarm]:
        """Take one examination in; return the alarms that begin with it."""
        holding = [*_same_text(seen), *_judge(seen), *_failed(seen)]
        begun = [alarm for alarm in holding if alarm.kind not in self._holding]
        self._holding = [alarm.kind for alarm in holding]
        self._alarms += begun
        return begun

    def state(self) -> object:
        """Return it as plain JSON values."""
        return msgspec.to_builtins({"alarms": self._alarms, "holding": self._holding})

    def restore(self, state: object) -> None:
        """Go on from what `state` returned."""
        kept = msgspec.convert(state, _State)
        self._alarms, self._holding = list(kept.alarms), list(kept.holding)


@dataclass(frozen=True, slots=True)
class _State:
    alarms: tuple[Alarm, ...]
    holding: tuple[AlarmKind, ...]


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


def _judge(seen: Responses) -> list[Alarm]:
    if seen.judge_failed <= MAX_JUDGE_FAILED:
        return []
    message = (
        f"the judge gave no verdicts on {seen.judge_failed:.1%} of the responses "
        f"(limit {MAX_JUDGE_FAILED:.0%}); they are left out"
    )
    return [Alarm(AlarmKind.JUDGE_FAILED, None, seen.judge_failed, MAX_JUDGE_FAILED, seen.step, message)]


def _failed(seen: Responses) -> list[Alarm]:
    if seen.failed <= MAX_FAILED:
        return []
    message = f"{seen.failed:.1%} of the rollouts failed (limit {MAX_FAILED:.0%}); they have no reward"
    return [Alarm(AlarmKind.ROLLOUTS_FAILED, None, seen.failed, MAX_FAILED, seen.step, message)]
