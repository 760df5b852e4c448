"""The alarm of a mixture whose experts get no tokens."""

from __future__ import annotations

import pytest

from tinsmith.stats.monitors.alarms import AlarmKind
from tinsmith.stats.monitors.run_monitors import IDLE_STEPS, MAX_IDLE, ExpertMonitor

OVER = MAX_IDLE + 0.1


@pytest.mark.parametrize(
    ("shares", "steps"),
    [
        ([OVER] * 6, [2]),
        ([OVER, OVER, 0.0, OVER, OVER, OVER, OVER], [5]),
        ([OVER] * 3 + [0.1] + [OVER] * 3, [2, 6]),
        ([MAX_IDLE] * 9, []),
        ([OVER, 0.0] * 5, []),
    ],
)
def test_an_alarm_begins_when_many_experts_have_been_idle_for_some_steps(shares: list[float], steps: list[int]) -> None:
    assert IDLE_STEPS == 3
    monitor = ExpertMonitor()
    begun = [alarm for step, share in enumerate(shares) for alarm in monitor.observe(step, share)]
    assert [alarm.step for alarm in begun] == steps
    for alarm in begun:
        assert (alarm.kind, alarm.value, alarm.key) == (AlarmKind.IDLE_EXPERTS, OVER, "alarm/idle_experts")
