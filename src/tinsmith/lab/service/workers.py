"""Workers of a tinsmith server, and their display while a run trains.

Other servers, and one that computes itself, tell of none: the watch, in a thread of its own, then looks once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from tinsmith.lab.live.teller import Teller
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import ask
from tinsmith.pages.measures import counted

ENDPOINT = "tinsmith/workers"  # Below `/api/v1/`.

_SECONDS = 5.0


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A process that computes for a server."""

    name: str
    node: str  # The machine it is on.
    threads: int  # Of its kernels.
    alive: bool
    under_way: int  # Requests, and parts of requests, that it has been given and not answered.
    done: int  # Those that it has answered.
    lost: str | None = None  # Why it is not alive; None: it is.

    @property
    def doing(self) -> str:
        """Its state, in words."""
        if not self.alive:
            return f"lost: {self.lost or 'no cause is known'}"
        return f"{counted(self.threads, 'thread')}, {self.under_way} under way, {self.done} done"


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """All workers of a server, alive or lost, and their pending work."""

    workers: tuple[Worker, ...]
    wanted: int | None = None  # How many there should be; None: one on each node.
    unready: str | None = None  # Why nothing can be computed; None: something can.
    retries: int = 0  # How often work was done again elsewhere.
    waiting: int = 0  # Work that no worker has been given yet.
    tokens_per_second: float = 0.0  # Sampled and trained, by all of them.
    dashboard: str | None = None  # Address of Ray's own page; None: it shows none.

    @property
    def words(self) -> str:
        """Summary for a person, in a line."""
        alive = [worker for worker in self.workers if worker.alive]
        nodes = counted(len({worker.node for worker in alive}), "node")
        lost = len(self.workers) - len(alive)
        parts = [
            f"{counted(len(alive), 'worker')} on {nodes}",
            *([f"{lost} lost"] if lost else []),
            f"{self.waiting} waiting",
            f"{self.tokens_per_second:.0f} tokens/s",
            *([counted(self.retries, "retry", "retries")] if self.retries else []),
        ]
        return ", ".join(parts)


def read_workers(answer: object) -> Workers | None:
    """Parse a server's answer; None if it reports no workers."""
    try:
        found = msgspec.convert(answer, Workers)
    except msgspec.ValidationError:
        return None
    return found if found.workers else None


_EVERY_SECONDS: Final = 2.0


def watch_workers(
    ask: Callable[[], Workers | None], say: Callable[[str], None], show: Callable[[str], None], stop: threading.Event
) -> None:
    """Ask for the workers again and again, until there are none to ask about or `stop` is set.

    `say` takes what happened, once; `show` how they stand, each time.
    """
    known: dict[str, Worker] | None = None  # By name; None: no answer came yet.
    while not stop.is_set():
        workers = ask()
        if workers is None and known is None:
            return
        if workers is not None:  # else the server answered before, and may only be busy
            now = {worker.name: worker for worker in workers.workers}
            for line in _news(known, now, workers):
                say(line)
            known = now
            show(workers.words)
        stop.wait(_EVERY_SECONDS)


def _news(known: Mapping[str, Worker] | None, now: Mapping[str, Worker], workers: Workers) -> Iterator[str]:
    if known is None:
        yield f"{workers.words}; {workers.dashboard}" if workers.dashboard else workers.words
        return
    for name, worker in now.items():
        before = known.get(name)
        if worker.alive and (before is None or not before.alive):
            yield f"worker {name} joined on {worker.node}; {workers.words}"
        elif not worker.alive and (before is None or before.alive):
            yield f"worker {name} on {worker.node} {worker.doing}; {workers.words}"


@contextmanager
def workers_watched(connection: Connection, teller: Teller) -> Generator[None, None, None]:
    """Report on a server's workers while the body runs, unless output is off."""
    if teller.quiet:
        yield
        return
    stop = threading.Event()
    request = partial(ask, connection, "GET", ENDPOINT, None, seconds=_SECONDS)
    arguments = (lambda: read_workers(request()), teller.say, teller.show_workers, stop)
    threading.Thread(target=watch_workers, args=arguments, name="worker watch", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
