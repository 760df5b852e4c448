"""Looks at the workers of a run's server while it trains, and tells when one is lost or joins.

In a thread of its own, so that no step waits for it; where a server tells of no workers it looks once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tinsmith.lab.live.teller import Teller
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.workers import Worker, Workers, workers_of

_EVERY_SECONDS: Final = 2.0


@dataclass(slots=True)
class WorkerWatch:
    """What is known of the workers so far."""

    ask: Callable[[], Workers | None]
    say: Callable[[str], None]
    """Takes what happened, once."""
    show: Callable[[str], None]
    """Takes how they stand, each time."""
    _known: dict[str, Worker] | None = None
    """By name; None: nothing was told yet."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def look(self) -> bool:
        """Look once; return whether to look again."""
        found = self.ask()
        if found is None:
            return self._known is not None  # it told before: it may only be busy
        now = {worker.name: worker for worker in found.workers}
        if self._known is None:
            page = f"; {found.dashboard}" if found.dashboard else ""
            self.say(f"{found.words}{page}")
        else:
            for name, worker in now.items():
                before = self._known.get(name)
                if worker.alive and (before is None or not before.alive):
                    self.say(f"worker {name} joined on {worker.node}; {found.words}")
                elif not worker.alive and (before is None or before.alive):
                    self.say(f"worker {name} on {worker.node} {worker.doing}; {found.words}")
        self._known = now
        self.show(found.words)
        return True

    def run(self) -> None:
        """Look again and again, until there is nothing to see or `stop`."""
        while not self._stop.is_set() and self.look():
            self._stop.wait(_EVERY_SECONDS)

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()


@contextmanager
def workers_watched(connection: Connection, teller: Teller) -> Generator[None, None, None]:
    """Tell of a server's workers meanwhile, unless nobody is told of anything."""
    if teller.quiet:
        yield
        return
    watch = WorkerWatch(lambda: workers_of(connection), teller.say, teller.show_workers)
    looking = threading.Thread(target=watch.run, name="worker watch", daemon=True)
    looking.start()
    try:
        yield
    finally:
        watch.stop()
