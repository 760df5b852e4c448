"""Progress of a run or of a wait for answers, remaining time, and load of other processes."""

from __future__ import annotations

import hashlib
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tinsmith.lab.schedule import due
from tinsmith.lab.settings import CommonSettings, RlSettings
from tinsmith.ops.extension import physical_cores
from tinsmith.pages.measures import counted
from tinsmith.types.waits import LONG_SECONDS, Say, pause_after

Progress = Callable[[int, int], None]  # Takes how many answers are there, of how many; first with none.

_TELLING: Final = 0.25  # Share of the answers that tells of the rest: those asked for first come before they are many.


def in_notebook() -> bool:
    """Return true in a kernel of Jupyter or marimo."""
    return "ipykernel" in sys.modules or "marimo" in sys.modules


def silent(answered: int, total: int) -> None:
    """Report nothing."""
    del answered, total


@dataclass(slots=True)
class Wait:
    """Progress of consecutive waits; see Progress."""

    say: Say
    clock: Callable[[], float] = time.perf_counter
    _began: float = 0.0
    _due: float = LONG_SECONDS
    _counted: bool = False

    def __call__(self, answered: int, total: int) -> None:
        """Report the number of answers and the remaining time; the last answer too, after an earlier report."""
        took = self.clock() - self._began
        if answered == 0:
            self._began, self._due, self._counted = self._began + took, LONG_SECONDS, False
        elif answered == total and self._counted:
            self.say(f"{answered} of {total} answers received")
        elif answered < total and took >= self._due and took * total / answered > LONG_SECONDS:
            self._due, self._counted = took + pause_after(took), True
            left = f", about {duration(took * (total - answered) / answered)} left"
            self.say(f"{answered} of {total} answers received{left if answered >= _TELLING * total else ''}")


def duration(seconds: float) -> str:
    """Return seconds, minutes or hours in words."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.1f} min" if seconds < 3 * 3600.0 else f"{seconds / 3600.0:.1f} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """State of a run after a step."""

    step: int  # The step that was just recorded.
    steps: int
    seconds_left: float
    later: str = ""  # Work that is not in these seconds, in words.

    @property
    def left(self) -> str:
        """Remaining time, in words."""
        return f"{duration(self.seconds_left)} left{self.later}"


_RECENT: Final = 5  # Steps whose median a step is taken to last.


@dataclass(slots=True, kw_only=True)
class Pace:
    """Steps and evaluations of one run so far. Supervised steps before RL are timed separately."""

    settings: CommonSettings
    forecast: float | None = None  # Seconds of all that follows the start, forecast before it; None: nothing was known.
    later_steps: float | None = None  # Time of a step, as a share of the first one's; None: not known.
    _steps: list[float] = field(default_factory=list[float])
    _evaluation: float | None = None
    _answers: float = 0.0  # What of it was waited for answers.
    _step_then: float | None = None  # Time of a step by reward when it was measured, where later ones are known of.
    _began_by_reward: bool = False  # True: the first of these steps is the run's first one by reward.
    _page: float = 0.0  # Time of the last page, drawn after an evaluation and at the end; 0: none was drawn yet.

    def drew(self, seconds: float) -> None:
        """Record the time of drawing the page after an evaluation, which is part of no step."""
        self._page = seconds

    @property
    def supervised(self) -> int:
        """Supervised steps before those of RL."""
        return self.settings.sft_steps if isinstance(self.settings, RlSettings) else 0

    def record(self, step: int, timings: Mapping[str, float], test: float, last: float = 0.0) -> Standing:
        """Record a step's timings, and return the progress after it.

        The test is to take `test` times the answers of an evaluation, and `last` times more if the last policy is not
        the best, which nobody knows before the last evaluation and counts by half. An evaluation is no measure of the
        steps that follow it; where none was measured yet, that is said. The forecast counts as one more step beside
        those measured, as the first answers are often longer than those that follow, and the two are averaged as ratios
        are, by their logarithms. Where it is known what becomes of steps, that counts as as many steps as the run has,
        and evaluations, which train on nothing, follow by its root. Pages are counted once one was drawn: after each
        evaluation, and at the end.
        """
        if step == self.supervised:
            self._steps.clear()
            self._step_then = None
            self._began_by_reward = isinstance(self.settings, RlSettings)
        self._steps.append(timings["step_s"] - timings.get("eval_s", 0.0))
        by_example, steps = step < self.supervised, self.settings.steps
        per_step = self._later_step()
        if "eval_s" in timings:
            self._evaluation = timings["eval_s"]
            self._answers = timings.get("answers_s", self._evaluation)
            self._step_then = _middle(self._steps) if self._knows_later else None
        end = self.supervised if by_example else steps
        seconds = per_step * max(0, end - step - 1)
        between = sum(due(one, self.settings.eval_every) for one in range(step + 1, end))
        looks, tests = between, 0.0
        if not by_example and step < steps:
            looks, tests = looks + 1, test + last / 2  # One at the end, and the test.
        later = f", then {counted(steps - end, 'step')} of RL" if by_example else ""
        if self._evaluation is not None:
            by_then = 1.0 if self._step_then is None else math.sqrt(per_step / self._step_then)
            seconds += (looks * self._evaluation + tests * self._answers) * by_then
        elif looks:
            later = f", plus the evaluations{later}"
        if self.forecast is not None and not later and step < end - 1:
            left = self.forecast * (end - step - 1) / steps
            seconds *= (left / seconds) ** (1 / (len(self._steps) + 1))
        own = "eval_s" in timings and step < steps  # its page comes now
        seconds += (between + own + (not by_example)) * self._page
        return Standing(step=step, steps=steps, seconds_left=seconds, later=later)

    @property
    def _knows_later(self) -> bool:
        return self.later_steps is not None and self._began_by_reward

    def _later_step(self) -> float:
        """Return the expected time of a later step, from recent ones and the task's own forecast."""
        recent, measured = _middle(self._steps), len(self._steps)
        if self.later_steps is None or not self._knows_later:
            return recent
        known = self.settings.steps
        return (known * self.later_steps * self._steps[0] + measured * recent) / (known + measured)


def _middle(steps: Sequence[float]) -> float:
    recent = sorted(steps[-_RECENT:])
    return recent[len(recent) // 2]


_PROBE_SECONDS: Final = (0.25, 1.5)  # A moment tells that nothing else runs; how much is told by a longer one.
_BLOCK: Final = bytes(1 << 16)
_WORTH_A_WORD: Final = 1.2  # Times as long as on an idle machine.


def slowdown(cores: int) -> float:
    """Return the current slowdown of a run on all cores by other processes.

    So many threads hash for a moment; the share of it that they were given is what counts. A run does not fill its
    cores as they do, so that it is slowed by less, down to not at all: the geometric middle is returned. Measured: of
    two cores whose half was given, 2.1 by hashing, 1.27 of a run of a nano base.
    """
    times = 1.0
    for seconds in _PROBE_SECONDS:
        times = math.sqrt(_hashing(cores, seconds))
        if times < _WORTH_A_WORD:
            break
    return times


def _hashing(cores: int, seconds: float) -> float:
    began, used = time.perf_counter(), time.process_time()

    def work() -> None:
        while time.perf_counter() < began + seconds:
            for _ in range(16):
                hashlib.sha256(_BLOCK)

    threads = [threading.Thread(target=work) for _ in range(cores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return slower(time.process_time() - used, time.perf_counter() - began, cores)


def slower(used: float, took: float, cores: int) -> float:
    """Return the slowdown of a computation that would have filled the cores.

    >>> slower(0.1, 0.1, 2)
    2.0
    >>> slower(0.21, 0.1, 2)
    1.0
    """
    return max(1.0, cores * took / max(used, 1e-9))


def other_work() -> float:
    """Return the current slowdown by other processes; 1 if it is negligible."""
    times = slowdown(physical_cores())
    return times if times >= _WORTH_A_WORD else 1.0


def minutes_now(minutes: float, times: float) -> str:
    """Return a duration in words, with the slowdown by other processes.

    >>> minutes_now(4.0, 2.04)
    '8.2 minutes on two cores beside the other work here (4.0 without it)'
    >>> minutes_now(16.0, 1.0)
    '16 minutes on two cores'
    """

    def number(minutes: float) -> str:
        return f"{minutes:.{1 if minutes < 10.0 else 0}f}"

    beside = f" beside the other work here ({number(minutes)} without it)" if times > 1.0 else ""
    return f"{number(minutes * times)} minutes on two cores{beside}"
