"""Watch on the process that started this one: it holds the other end of standard input.

Made before anything heavy is imported, so that a server whose parent is gone does not first come up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_LEAVE_SECONDS: Final = 10.0
"""Seconds that leaving may take. A computation under way may take longer than anyone waits for."""


class ParentWatch:
    """Ends this process when standard input closes: at once while it starts, in order once it serves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gone = False
        self._leave: Callable[[], object] | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def then(self, leave: Callable[[], object]) -> None:
        """From now on call `leave` instead of ending at once; right now, if the parent is gone already."""
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
            with suppress(RuntimeError):  # the loop is closed: it is leaving already
                self._leave()
        timer = threading.Timer(_LEAVE_SECONDS, os._exit, args=(0,))
        timer.daemon = True
        timer.start()
