"""How far a wait for answers has come, and when that is worth a line: a long look must not pass in silence."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tinsmith.types.waits import LONGEST_SECONDS, Say

Progress = Callable[[int, int], None]
"""Takes how many answers are there, of how many; first with none."""

LONG_SECONDS: Final = 2.0
"""A wait that is shorter than this is not told of."""


def in_notebook() -> bool:
    """Return true in a kernel of Jupyter or marimo."""
    return "ipykernel" in sys.modules or "marimo" in sys.modules


def silent(answered: int, asked: int) -> None:
    """Tell nobody."""
    del answered, asked


@dataclass(slots=True)
class Wait:
    """Tells of one wait after the other; see Progress."""

    say: Say
    clock: Callable[[], float] = time.perf_counter
    _began: float = 0.0
    _due: float = LONG_SECONDS
    _counted: bool = False

    def __call__(self, answered: int, asked: int) -> None:
        """Say how many answers are there, and how long the others will take; the last one too, once that was said."""
        took = self.clock() - self._began
        if answered == 0:
            self._began, self._due, self._counted = self._began + took, LONG_SECONDS, False
        elif answered == asked and self._counted:
            self.say(f"{answered} of {asked} answers received")
        elif answered < asked and took >= self._due and took * asked / answered > LONG_SECONDS:
            self._due, self._counted = took + min(LONGEST_SECONDS, max(LONG_SECONDS, took)), True
            left = duration(took * (asked - answered) / answered)
            self.say(f"{answered} of {asked} answers received, about {left} left")


def duration(seconds: float) -> str:
    """Return seconds or minutes, as a person says them."""
    return f"{seconds:.0f} s" if seconds < 90.0 else f"{seconds / 60.0:.1f} min"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """State of a run after a step."""

    step: int
    """The step that was just recorded."""
    steps: int
    seconds_left: float
    later: str = ""
    """Work that is not in these seconds, in words."""

    @property
    def left(self) -> str:
        """Remaining time, in words."""
        return f"{duration(self.seconds_left)} left{self.later}"
