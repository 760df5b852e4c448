"""Time that runs take beside one another: as forecast at first, then as runs say themselves and as the ended took."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tinsmith.lab.experiment.experiment import Plan, make_plan
from tinsmith.lab.live.progress import duration
from tinsmith.lab.runs.files import TIMINGS
from tinsmith.lab.study.sizes import Cell
from tinsmith.lab.user_task.run_data import data_of_task

Minutes = Callable[[Plan], float | None]  # Forecasts a run; None: nothing is known of its model.


def minutes_of_task(plan: Plan) -> float | None:
    """Return the minutes of a run of a task."""
    return data_of_task(plan).minutes()


def seconds_of(cells: Sequence[Cell], threads: int, minutes: Minutes) -> list[float] | None:
    """Return the seconds of each cell, run with so many threads beside others; None: one of them is not known.

    Cells that differ by seed and learning rate alone are forecast once.
    """
    known: dict[tuple[str, frozenset[tuple[str, str]]], float | None] = {}
    found: list[float] = []
    for cell in cells:
        alike = {key: value for key, value in cell.overrides.items() if key not in ("seed", "learning_rate")}
        which = (cell.experiment.name, frozenset(alike.items()))
        if which not in known:
            known[which] = minutes(make_plan(cell.experiment, {"threads": str(threads), **cell.overrides}))
        each = known[which]
        if each is None:
            return None
        found.append(60 * each)
    return found


def side_by_side(seconds: Sequence[float], at_once: int) -> float:
    """Return how long runs of these seconds take, so many at once: each begins, in this order, where one has ended."""
    ends = [0.0] * at_once
    for each in seconds:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)


class _Last(msgspec.Struct, frozen=True):
    left_s: float | None = None


def left_of_run(folder: Path, elapsed: float) -> float | None:
    """Return the seconds that a run in a folder, which began `elapsed` seconds ago, says are left; None: not yet."""
    with suppress(OSError, ValueError, msgspec.DecodeError):
        file = folder / TIMINGS
        age = time.time() - file.stat().st_mtime  # Of an earlier process, where it is older than the run.
        *_, last, _ = file.read_bytes().split(b"\n")
        left = msgspec.json.decode(last, type=_Last).left_s
        return None if left is None or age > elapsed else max(0.0, left - age)
    return None


def _nothing(name: str, elapsed: float) -> None:
    del name, elapsed


class TimeLeft:
    """Seconds that a study's runs still take.

    Args:
        seconds: of each run by name; None: not known, so that all count alike and nothing is forecast until one ends.
        at_once: runs beside one another.
        clock: in seconds.
        own_left: seconds that a run says are left of it, by its name and the seconds since it began; None: not yet.
    """

    def __init__(
        self,
        names: Sequence[str],
        seconds: Sequence[float] | None,
        at_once: int,
        clock: Callable[[], float] = time.perf_counter,
        own_left: Callable[[str, float], float | None] = _nothing,
    ) -> None:
        self._known = seconds is not None
        self._forecast: Mapping[str, float] = dict(zip(names, seconds or [1.0] * len(names), strict=True))
        self._at_once, self._clock, self._own_left = at_once, clock, own_left
        self._to_go, self._began = dict.fromkeys(names), dict[str, float]()
        self._took = self._was_forecast = 0.0
        # The forecast counts as one more run beside those that have ended: one that was short tells little of others.
        self._prior = sum(self._forecast.values()) / len(names) if seconds else 0.0

    def begin(self, name: str) -> None:
        """Note that a run begins, perhaps anew."""
        self._began[name] = self._clock()

    def end(self, name: str) -> None:
        """Note that a run came to its end."""
        self._took += self._clock() - self._began.pop(name)
        self._was_forecast += self._forecast[name]
        self._to_go.pop(name, None)

    def seconds(self) -> float | None:
        """Return the seconds left; None: not known yet."""
        now = self._clock()
        elapsed = {name: now - began for name, began in self._began.items()}
        own = {name: left for name, took in elapsed.items() if (left := self._own_left(name, took)) is not None}
        took = self._took + sum(elapsed[name] + left for name, left in own.items())
        was_forecast = self._was_forecast + sum(self._forecast[name] for name in own)
        if not self._known and not was_forecast:
            return None
        known = was_forecast + self._prior
        slower = (took + self._prior) / known if known else 1.0
        begun_first = sorted(self._to_go, key=lambda name: name not in self._began)
        left = [own.get(name, max(0.0, slower * self._forecast[name] - elapsed.get(name, 0.0))) for name in begun_first]
        return side_by_side(left, self._at_once)

    def __str__(self) -> str:
        left = self.seconds()
        if left is None:
            return ""
        return f", about {duration(left)} left" if left >= 1.0 else ", longer than forecast"
