"""What a person is told while a run trains: its evaluations, each alarm once, and how long it will still take.

Sinks get the same metrics where they were asked for; nothing here needs an account.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from tinsmith.lab.live.live_table import LiveTable
from tinsmith.lab.live.progress import Progress, Wait
from tinsmith.lab.live.standing import Standing
from tinsmith.stats.monitors.alarms import Alarm
from tinsmith.types.visible import visible

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
    """Tells of one run: a table that is redrawn in place where `out` is a terminal, a line an evaluation elsewhere."""

    name: str
    steps: int
    sinks: Sequence[Sink] = ()
    out: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    _seconds: list[float] = field(default_factory=list[float])
    _alarmed: set[str] = field(default_factory=set[str])
    _table: LiveTable | None = None

    def __post_init__(self) -> None:
        if not self.quiet and self.out.isatty():
            self._table = LiveTable(self.name, _SHOWN, self.out)

    def step(
        self, step: int, metrics: Mapping[str, object], timings: Mapping[str, float], alarms: Sequence[Alarm]
    ) -> None:
        """Tell of one step; an alarm is told when it first sounds."""
        for sink in self.sinks:
            sink.log(step, metrics)
        # An examination is no measure of the steps that follow it.
        self._seconds.append(timings["step_s"] - timings.get("eval_s", 0.0))
        if self.quiet:
            return
        for alarm in alarms:
            if alarm.key not in self._alarmed:
                self._alarmed.add(alarm.key)
                self._alarm(f"at step {step}: {alarm.message}")
        examined = step >= self.steps or any(key.startswith("eval/") for key in metrics)
        if self._table is not None:
            self._table.show(self.standing(step), metrics, kept=examined)
        elif examined:
            print(self._line(step, metrics), file=self.out, flush=True)

    def standing(self, step: int) -> Standing:
        """Return where the run stands after this step."""
        return Standing.of(step, self.steps, self._seconds)

    def say(self, words: str) -> None:
        """Tell something of the run, in a line."""
        if self._table is not None:
            self._table.say(words)
        elif not self.quiet:
            print(visible(f"{self.name}: {words}"), file=self.out, flush=True)

    def show_workers(self, words: str) -> None:
        """Show how the workers of the server stand, where there is a place for it."""
        if self._table is not None:
            self._table.show_workers(words)

    def waiting(self, what: str) -> Progress:
        """Return what tells of a long wait for answers."""
        return Wait(lambda words: self.say(f"{what}: {words}"))

    def close(self) -> None:
        """The run is over."""
        if self._table is not None:
            self._table.close()
        for sink in self.sinks:
            sink.close()

    def _alarm(self, words: str) -> None:
        if self._table is not None:
            self._table.alarm(words)
        else:
            print(visible(f"{self.name}: ALARM {words}"), file=self.out)

    def _line(self, step: int, metrics: Mapping[str, object]) -> str:
        shown = [f"{name} {value:.3f}" for name, key in _SHOWN if isinstance(value := metrics.get(key), float)]
        left = self.standing(step).left
        return f"{self.name}: step {step}/{self.steps}  {'  '.join(shown)}  ({left})"
