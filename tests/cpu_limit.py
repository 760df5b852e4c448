"""A guard around a computation that could take for ever: counts this process's own time, not a busy machine's."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT_S = 20
"""Far more than linear time needs for the texts it is used for, far less than quadratic time."""


@contextmanager
def guarded() -> Iterator[None]:
    """Raise TimeoutError in the block once it has computed for `LIMIT_S`."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"it computed for {LIMIT_S} s and was not done")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
