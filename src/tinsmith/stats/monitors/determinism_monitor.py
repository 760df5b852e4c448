"""Watches the groups of the last steps for failure that is fixed: prompts always right or always wrong.

More samples of such a policy teach nothing; another temperature, options forced into groups, or a few examples may.
An alarm is raised when its condition begins and again only after it had ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tinsmith.stats.diagnostics.dead_groups import group_census
from tinsmith.stats.monitors.alarms import Alarm, AlarmKind

MAX_DETERMINISM = 0.9
STEPS = 20
"""Steps that are looked back on ..."""
GROUPS = 30
"""... and the fewest groups in them to judge by."""
LEAST_EXPECTED = 0.2
"""Where chance would leave fewer groups mixed than that, the task is nearly solved, or hardly ever."""


class _State(msgspec.Struct, frozen=True, kw_only=True):
    steps: tuple[tuple[tuple[float, ...], ...], ...] = ()
    holding: bool = False
    alarms: tuple[Alarm, ...] = ()


@dataclass(slots=True)
class DeterminismMonitor:
    """Raises the alarm; feed it in the order of the steps."""

    _kept: _State = field(default_factory=_State)

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Every alarm raised so far, oldest first."""
        return self._kept.alarms

    def observe(self, step: int, groups: Sequence[Sequence[float]]) -> list[Alarm]:
        """Take the rewards of a step's groups in; return the alarm that begins with it."""
        steps = (*self._kept.steps, tuple(tuple(group) for group in groups))[-STEPS:]
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
        self._kept = _State(steps=steps, holding=holds, alarms=(*self._kept.alarms, *begun))
        return begun

    def state(self) -> object:
        """Return it as plain JSON values."""
        return msgspec.to_builtins(self._kept)

    def restore(self, state: object) -> None:
        """Go on from what `state` returned."""
        self._kept = msgspec.convert(state, _State)
