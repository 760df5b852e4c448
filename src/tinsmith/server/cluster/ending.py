"""The end of a server whose workers are gone: it says why for a moment, and has ended soon after, whatever waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from tinsmith.engine.cluster.ray_start import end_process
from tinsmith.server.cluster.ray_workers import RayWorkers
from tinsmith.types.errors import LostError

SAYING_SECONDS: Final = 5.0
"""For which requests are still answered, with the reason."""
END_SECONDS: Final = 22.0
"""Within which it has ended, even where Ray is waited for that will never answer."""


@dataclass(slots=True)
class ServersWorkers:
    """A server's workers, where it has some, and what becomes of it when they are gone."""

    running: RayWorkers | None = None
    gone: str | None = None
    """Reason that no worker is left; None while there are some."""
    leave: Callable[[], None] | None = None
    """Stops the server; None: it does not serve yet."""
    limit: threading.Timer | None = None
    """Ends the process if nothing else does."""

    def lost(self, why: str) -> None:
        """Stop the server: nobody is left to compute. Any thread may call this."""
        self.gone = why
        self.limit = threading.Timer(END_SECONDS, self._end)
        self.limit.daemon = True
        self.limit.start()
        if self.leave is not None:
            self.leave()

    def finish(self) -> NoReturn:
        """End the server, whose state is closed.

        Raises:
            LostError: nobody is left to compute.
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
        """End this process: a Ray that is dead is waited for at the end of a Python process."""
        end_process(self._error())
