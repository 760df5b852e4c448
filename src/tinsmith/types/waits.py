"""Progress lines of long waits of unknown length, so that no command is silent for long."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, NoReturn, TextIO

from tinsmith.types.visible import visible

STARTING: Final = "starting: "
"""Prefix of a line on standard error about a step of a start."""

READY: Final = "tinsmith serve: "
"""A server answers: its line on standard output, with address and key behind this."""

Say = Callable[[str], None]
"""Callback for progress lines that a person reads."""

FIRST_SECONDS: Final = 1.0
"""Seconds of silence before the first line on a wait; in a terminal, between two."""
LONG_SECONDS: Final = 2.0
"""Least seconds between two lines on one wait in a pipe or log; a shorter wait is not reported."""
_LONGEST_SECONDS: Final = 30.0
_SHARE: Final = 0.1


def pause_after(took: float, part: float = 1.0) -> float:
    """Return the seconds until the next line in a pipe or log, from the elapsed seconds.

    They come ever more seldom, so that a log of hours stays readable: after two seconds, later after a tenth of what it
    took, at most after half a minute. `part` is the part of that for lines that say more.
    """
    return min(_LONGEST_SECONDS, part * max(LONG_SECONDS, _SHARE * took))


def is_terminal(stream: TextIO) -> bool:
    """Return True if lines of a stream can be written over: a dumb terminal shows none that is."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def unsaid(line: str) -> None:
    """Drop a line: the run is quiet."""
    del line


def tell(line: str) -> None:
    """Print a line on standard error, above a running counter of seconds."""
    clear = ""
    for wait in _waits:
        wait.postpone()
        clear = _CLEAR if wait.in_place else clear
    print(f"{clear}{visible(line)}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Ticks:
    """Lines on one wait: one that counts seconds in a terminal; ever rarer ones in a pipe or log."""

    what: str | Callable[[], str]
    """Description of the work; a function also reports its progress."""
    say: Say | None = None
    """Callback for lines where standard error is no terminal; None prints them there."""
    replaces: bool = False
    """True if `say` replaces the previous line with each new one."""
    clock: Callable[[], float] = time.perf_counter
    _began: float = field(init=False)
    _last_line: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._last_line = self.clock()

    @property
    def in_place(self) -> bool:
        """True if one line of a terminal counts the seconds."""
        return is_terminal(sys.stderr)

    def postpone(self) -> None:
        """Postpone the next line on this wait, as another line was printed."""
        self._last_line = self.clock()

    def tick(self) -> float:
        """Print a line if one is due; return the seconds until the next."""
        now = self.clock()
        if (early := self._last_line + self._pause - now) > 0:
            return early
        took = now - self._began
        line = f"{self.what if isinstance(self.what, str) else self.what()}, {took:.0f} s so far"
        if self.in_place:
            columns = max(1, shutil.get_terminal_size().columns - 1)
            print(f"\r{visible(line)[:columns]}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            (self.say or tell)(line)
        self._last_line = now
        return self._pause

    @property
    def _pause(self) -> float:
        """Return the seconds from the last line to the next."""
        first = self._last_line == self._began
        return FIRST_SECONDS if first or self.replaces or self.in_place else pause_after(self._last_line - self._began)


_CLEAR: Final = "\r\x1b[K"
_waits: Final[list[Ticks]] = []
"""Waits in progress, innermost last; only the innermost is reported."""


@contextmanager
def ticking(
    what: str | Callable[[], str], say: Say | None = None, *, replaces: bool = False
) -> Generator[Ticks, None, None]:
    """Print progress lines while the body runs, if it takes long; see Ticks."""
    over, ticks = threading.Event(), Ticks(what, say, replaces)
    if say is unsaid:
        yield ticks
        return

    def go_on() -> None:
        pause = FIRST_SECONDS
        while not over.wait(pause):
            pause = ticks.tick() if _waits[-1] is ticks else FIRST_SECONDS

    thread = threading.Thread(target=go_on, daemon=True)
    _waits.append(ticks)
    thread.start()
    try:
        yield ticks
    finally:
        over.set()
        thread.join()
        _waits.remove(ticks)
        if ticks.in_place:
            print(_CLEAR, end="", file=sys.stderr, flush=True)


@contextmanager
def loading(say: Say | None = None) -> Generator[None, None, None]:
    """Report the import of libraries while the body of a command imports them.

    They stay: to look for garbage in them takes a sixth of the time, now and when the command ends. An interrupt ends
    the process at once, as nothing has begun: libraries take one for an error of theirs, or abort.
    """
    own = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT)
    gc.disable()
    if own is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_interrupted)
    try:
        with ticking(f"{STARTING}loading the libraries", say):
            yield
    finally:
        if own is signal.default_int_handler:
            signal.signal(signal.SIGINT, own)
        gc.enable()
        gc.freeze()


def _end_interrupted(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    os.write(2, b"\ntinsmith: interrupted; nothing has begun\n")  # a line may be half printed when this is called
    os._exit(128 + number)
