"""Watch on the parent process, which holds the other end of standard input.

It is created before heavy imports, so that a server without a parent does not start at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_LEAVE_SECONDS: Final = 10.0
"""Most seconds for an orderly stop; a computation in progress may take longer than anyone waits."""


class ParentWatch:
    """Handler for the end of standard input: the process ends at once while it starts, and in order once it serves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gone = False
        self._leave: Callable[[], object] | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def then(self, leave: Callable[[], object]) -> None:
        """Call `leave` from now on instead of ending at once; immediately, if the parent is gone already."""
        with self._lock:
            self._leave = leave
            if self._gone:
                leave()

    def _watch(self) -> None:
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        with self._lock:
            self._gone = True
            if self._leave is None:
                os._exit(0)
            with suppress(RuntimeError):  # the loop is closed: the server is stopping already
                self._leave()
        timer = threading.Timer(_LEAVE_SECONDS, os._exit, args=(0,))
        timer.daemon = True
        timer.start()
