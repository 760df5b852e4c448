"""Shutdown of a server whose workers are lost: it reports the reason for a moment, then ends in bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from tinsmith.engine.cluster.ray_start import end_process
from tinsmith.server.cluster.ray_workers import RayWorkers
from tinsmith.types.errors import LostError

SAYING_SECONDS: Final = 5.0
"""Seconds in which requests are still answered, with the reason."""
END_SECONDS: Final = 22.0
"""Seconds until the process ends, even if a dead Ray blocks it."""


@dataclass(slots=True)
class ServersWorkers:
    """Workers of a server, if it has any, and its shutdown when they are lost."""

    running: RayWorkers | None = None
    gone: str | None = None
    """Reason for the loss of all workers; None while some are left."""
    leave: Callable[[], None] | None = None
    """Callback that stops the server; None until it serves."""
    limit: threading.Timer | None = None
    """Watchdog that ends the process if nothing else does."""

    def lost(self, why: str) -> None:
        """Stop the server: no worker is left. Any thread may call this."""
        self.gone = why
        self.limit = threading.Timer(END_SECONDS, self._end)
        self.limit.daemon = True
        self.limit.start()
        if self.leave is not None:
            self.leave()

    def finish(self) -> NoReturn:
        """End the server after its state was closed.

        Raises:
            LostError: no worker is left.
        """
        if self.running is not None and self.running.ray_is_dead:
            self._end()
        if self.limit is not None:
            self.limit.cancel()
        raise self._error()

    def _error(self) -> LostError:
        return LostError(
            "the server stopped, because no worker is left",
            field="workers",
            value=self.gone,
            fix="start it again: its state is whole, and runs on it can be resumed",
        )

    def _end(self) -> NoReturn:
        """End this process at once: Python's own exit would wait for the dead Ray."""
        end_process(self._error())
