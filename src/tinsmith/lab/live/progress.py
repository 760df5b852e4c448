"""How far a wait for answers has come, and when that is worth a line: a long look must not pass in silence."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

Progress = Callable[[int, int], None]
"""Takes how many answers are there, of how many; first with none."""

Say = Callable[[str], None]
"""Takes a line on what is being made, for a person."""

LONG_SECONDS: Final = 30.0
"""A wait that is shorter than this is not told of."""
EVERY_SECONDS: Final = 30.0
"""Between two lines on one wait."""


def in_notebook() -> bool:
    """Return true in a kernel of Jupyter or marimo."""
    return "ipykernel" in sys.modules or "marimo" in sys.modules


def silent(answered: int, asked: int) -> None:
    """Tell nobody."""
    del answered, asked


@dataclass(slots=True)
class Wait:
    """Tells of one wait after the other; see Progress."""

    say: Callable[[str], None]
    clock: Callable[[], float] = time.perf_counter
    _began: float = 0.0
    _said: float | None = None

    def __call__(self, answered: int, asked: int) -> None:
        """Say how long it will still take, if that is long and was not just said."""
        now = self.clock()
        if answered == 0:
            self._began, self._said = now, None
            return
        whole = (now - self._began) * asked / answered
        if answered == asked or whole < LONG_SECONDS:
            return
        if self._said is None or now - self._said >= EVERY_SECONDS:
            self._said = now
            left = duration(whole * (1.0 - answered / asked))
            self.say(f"{answered} of {asked} answers received, about {left} left")


def duration(seconds: float) -> str:
    """Return seconds or minutes, as a person says them."""
    return f"{seconds:.0f} s" if seconds < 90.0 else f"{seconds / 60.0:.1f} min"


_RECENT: Final = 20
"""Steps whose median a step is taken to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """State of a run after a step."""

    step: int
    """The step that was just recorded."""
    steps: int
    seconds_left: float
    """Of training; evaluations come on top."""

    @classmethod
    def of(cls, step: int, steps: int, seconds: Sequence[float]) -> Standing:
        """Return where a run stands whose steps so far took these seconds, in order."""
        recent = sorted(seconds[-_RECENT:])
        a_step = recent[len(recent) // 2] if recent else 0.0
        return cls(step=step, steps=steps, seconds_left=a_step * max(0, steps - step))

    @property
    def left(self) -> str:
        """Remaining time, in words."""
        return f"{duration(self.seconds_left)} left"
