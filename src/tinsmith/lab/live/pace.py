"""Seconds that are left of a run, from what its own steps and evaluations took: the one estimate that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tinsmith.lab.live.progress import Standing
from tinsmith.lab.schedule import due
from tinsmith.lab.settings import CommonSettings, RlSettings
from tinsmith.pages.wording import counted

_RECENT: Final = 20
"""Steps whose median a step is taken to last."""


@dataclass(slots=True, kw_only=True)
class Pace:
    """Steps and evaluations of one run so far. Supervised steps before RL count by themselves."""

    settings: CommonSettings
    last_look: float
    """Evaluations that the test is worth."""
    _steps: list[float] = field(default_factory=list[float])
    _evaluation: float | None = None

    @property
    def supervised(self) -> int:
        """Supervised steps before those of RL."""
        return self.settings.sft_steps if isinstance(self.settings, RlSettings) else 0

    def record(self, step: int, timings: Mapping[str, float]) -> Standing:
        """Take what a step took, and return where the run stands after it.

        An evaluation is no measure of the steps that follow it; where none was measured yet, that is said.
        """
        if step == self.supervised:
            self._steps.clear()
        self._evaluation = timings.get("eval_s", self._evaluation)
        self._steps.append(timings["step_s"] - timings.get("eval_s", 0.0))
        by_example, steps = step < self.supervised, self.settings.steps
        end = self.supervised if by_example else steps
        recent = sorted(self._steps[-_RECENT:])
        seconds = recent[len(recent) // 2] * max(0, end - step - 1)
        looks = float(sum(due(each, self.settings.eval_every) for each in range(step + 1, end)))
        if not by_example and step < steps:
            looks += 1 + self.last_look  # at the end, and the test
        later = f", then {counted(steps - end, 'step')} of RL" if by_example else ""
        if looks and self._evaluation is None:
            later = f" and the evaluations{later}"
        return Standing(step=step, steps=steps, seconds_left=seconds + looks * (self._evaluation or 0.0), later=later)


def worth_keeping(settings: CommonSettings, step: int, first: int) -> bool:
    """Return true for a step to measure by: a process's first one, or its first of RL after supervised ones."""
    supervised = settings.sft_steps if isinstance(settings, RlSettings) else 0
    return step < settings.steps and step in {first, max(first, supervised)}
