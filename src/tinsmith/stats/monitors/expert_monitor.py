"""Watches a mixture's experts while it is trained: an alarm when many of them get no token any more.

An alarm is raised when its condition begins and again only after the condition had ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.stats.monitors.alarms import Alarm, AlarmKind

MAX_IDLE = 0.25
"""Share of all experts without a token in a step."""
IDLE_STEPS = 3
"""Steps running with more than that."""


@dataclass(slots=True)
class ExpertMonitor:
    """Raises the alarm; feed it in the order of the steps."""

    _running: int = 0
    """Steps running with too many idle experts."""

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
