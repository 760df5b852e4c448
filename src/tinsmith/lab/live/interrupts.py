"""Ctrl-C and SIGTERM of a run: the first saves a checkpoint after the step, a second ends it at once."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOCKING: Final = (logging.__file__, "<frozen importlib._bootstrap>")
"""Code that holds process-wide locks, which an exception from a signal handler could leave locked."""
_PAUSE_SECONDS: Final = 0.05
_PAUSES: Final = 20
_NOTICED: Final = b"\ntinsmith: interrupted; a checkpoint is saved when this step is over (again ends at once)\n"


class InterruptedTwice(KeyboardInterrupt):
    """Exception that ends a run at once: a second interrupt within one step."""


@dataclass(slots=True)
class Interrupts:
    """Interrupts of one run.

    Where they are not put off they raise KeyboardInterrupt, whose argument is the signal's number.
    """

    number: int | None = None  # The signal that was put off; None: there was none.
    _puts_off: bool = False
    _pauses: int = 0

    @contextmanager
    def noticed(self) -> Generator[None, None, None]:
        """Handle the signals while the body runs; no effect outside the main thread, or on ignored signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.getsignal(each) for each in _SIGNALS}
        taken = {each: handler for each, handler in before.items() if handler not in (None, signal.SIG_IGN)}
        for each in taken:
            signal.signal(each, self._received)
        try:
            yield
        finally:
            for each, handler in taken.items():
                signal.signal(each, handler)

    @contextmanager
    def put_off(self) -> Generator[None, None, None]:
        """Defer the first signal while the body runs, which polls for it between its steps."""
        self._puts_off = True
        try:
            yield
        finally:
            self._puts_off = False

    def end(self) -> None:
        """Interrupt now, if a signal was put off."""
        if self.number is not None:
            raise KeyboardInterrupt(self.number)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            raise InterruptedTwice(number)
        if not self._puts_off:
            if self._pauses < _PAUSES and _may_hold_a_lock(frame):
                self._pauses += 1
                again = threading.Timer(_PAUSE_SECONDS, signal.pthread_kill, (threading.main_thread().ident, number))
                again.daemon = True
                again.start()
                return
            raise KeyboardInterrupt(number)
        self.number = number
        os.write(2, _NOTICED)  # a print may be under way, and is not to be entered twice


def _may_hold_a_lock(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename in _LOCKING:
            return True
        frame = frame.f_back
    return False
