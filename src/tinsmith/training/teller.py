"""What a person is told while a run trains: a line an evaluation, alarms at once, and how long it will still take.

Sinks get the same metrics where they were asked for; nothing here needs an account.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from tinsmith.analysis.alarms import Alarm
from tinsmith.training.progress import Progress, Wait

_SHOWN = (
    ("reward", "train/reward/total"),
    ("nll", "train/nll"),
    ("informative", "train/groups/informative"),
    ("macro-F1", "eval/macro_f1"),
    ("greedy", "eval_greedy/macro_f1"),
    ("evaluated", "eval/reward/total"),
    ("greedy", "eval_greedy/reward/total"),
    ("pass rate", "eval/pass_rate"),
    ("greedy", "eval_greedy/pass_rate"),
    ("min recall", "eval/min_class_recall"),
    ("both right", "eval/exact_match"),
    ("MI", "eval/label_mi"),
)


class Sink(Protocol):
    """Something that keeps metrics elsewhere."""

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        """Keep one step's metrics."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


@dataclass(slots=True)
class Teller:
    """Tells of one run."""

    name: str
    steps: int
    sinks: Sequence[Sink] = ()
    out: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    _seconds: list[float] = field(default_factory=list[float])

    def step(
        self,
        step: int,
        metrics: Mapping[str, object],
        timings: Mapping[str, float],
        alarms: Sequence[Alarm],
    ) -> None:
        """Tell of one step."""
        for sink in self.sinks:
            sink.log(step, metrics)
        # An examination is no measure of the steps that follow it.
        self._seconds.append(timings["step_s"] - timings.get("eval_s", 0.0))
        if self.quiet:
            return
        for alarm in alarms:
            print(f"{self.name}: ALARM at step {step}: {alarm.message}", file=self.out)
        examined = step >= self.steps or any(key.startswith("eval/") for key in metrics)
        if examined or self.out.isatty():
            end = "\n" if examined else "\r"
            print(self._line(step, metrics), end=end, file=self.out, flush=True)

    def say(self, words: str) -> None:
        """Tell something of the run, in a line."""
        if not self.quiet:
            print(f"{self.name}: {words}", file=self.out, flush=True)

    def waiting(self, what: str) -> Progress:
        """Return what tells of a long wait for answers."""
        return Wait(lambda words: self.say(f"{what}: {words}"))

    def close(self) -> None:
        """The run is over."""
        for sink in self.sinks:
            sink.close()

    def _line(self, step: int, metrics: Mapping[str, object]) -> str:
        shown = [
            f"{name} {value:.3f}"
            for name, key in _SHOWN
            if isinstance(value := metrics.get(key), float)
        ]
        recent = sorted(self._seconds[-20:])
        left = recent[len(recent) // 2] * max(0, self.steps - step)
        eta = f"{left / 60:.1f} min left" if left >= 60 else f"{left:.0f} s left"
        return f"{self.name}: step {step}/{self.steps}  {'  '.join(shown)}  ({eta})"
