"""Dispatcher of work items: takes them from the server's threads, sends them to workers, and settles each once.

One thread owns the scheduler and receives everything as an event, in order of arrival: works, answers, workers that
join or are lost. The first answer settles a work, whichever worker sent it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from tinsmith.engine.cluster.held_weights import HeldWeights
from tinsmith.engine.cluster.schedule import Assignment, Item, Limits, Scheduler, WorkKind
from tinsmith.engine.cluster.work import Outcome, Refused, SampleWork, Shipped, WeightsId, Work, WorkerFacts
from tinsmith.types.errors import LostError, UnavailableError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between the scheduler's checks for late works while nothing happens."""
REMEMBERED = 64
"""Number of lost workers that are still reported."""


class Transport(Protocol):
    """Connection to the workers. Its methods are called on the dispatcher's thread and never block."""

    def send(self, worker: str, work: Work, weights: Shipped | None) -> None:
        """Send a work; `Dispatcher.answered` or `lost` is called later."""
        ...

    def drop(self, worker: str, work_id: str) -> None:
        """Tell a worker that a work's result is no longer needed."""
        ...

    def forget(self, worker: str, weights: WeightsId) -> None:
        """Tell a worker to drop these weights; they are sent again if a later work needs them."""
        ...

    def tidy(self, worker: str) -> None:
        """Tell a worker to return its free memory."""
        ...


@dataclass(slots=True, kw_only=True)
class KnownWorker:
    """Public status of a worker."""

    name: str
    facts: WorkerFacts
    lost: str | None = None
    """Reason for the loss; None while the worker is available."""
    done: int = 0
    """Number of works that it was the first to answer."""


@dataclass(slots=True, eq=False)
class _Entry:
    work: Work
    weights: Shipped | None
    settled: Callable[[Outcome], None]


@dataclass(slots=True)
class Dispatcher:
    """Dispatcher of works to available workers. Any thread may call its methods."""

    transport: Transport
    limits: Limits = field(default_factory=Limits)
    failed: Callable[[str], None] = lambda _: None
    """Callback with the error after which no work is dispatched any more. Called on the dispatcher's thread."""
    _events: queue.SimpleQueue[Callable[[], None] | None] = field(
        default_factory=queue.SimpleQueue[Callable[[], None] | None]
    )
    _scheduler: Scheduler = field(init=False)
    _held: HeldWeights = field(init=False)
    _entries: dict[str, _Entry] = field(default_factory=dict[str, _Entry])
    _known: dict[str, KnownWorker] = field(default_factory=dict[str, KnownWorker])
    _closed: str | None = None
    """Reason that no more works are done; None while it is open."""
    under_way: Mapping[str, int] = field(default_factory=dict[str, int])
    """Works sent, by worker, as of the last decision; any thread may read it."""
    num_waiting: int = 0
    """Number of unassigned works as of the last decision."""
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._scheduler = Scheduler(self.limits)
        self._held = HeldWeights(self._let_go)
        self._thread = threading.Thread(target=self._run, name="tinsmith-dispatch", daemon=True)
        self._thread.start()

    def submit(self, work: Work, size: int, weights: Shipped | None, settled: Callable[[Outcome], None]) -> None:
        """Submit a work; `settled` is called once on the dispatcher's thread, unless the work is dropped first."""
        if isinstance(work, SampleWork):
            item = Item(id=work.id, kind=WorkKind.SAMPLE, size=size, owner=work.owner)
        else:
            item = Item(id=work.id, kind=WorkKind.GRADIENT, size=size)

        def add() -> None:
            if self._closed is not None:
                settled(Refused(error=UnavailableError(self._closed)))
                return
            if weights is not None:
                self._held.hold(weights)
            self._entries[work.id] = _Entry(work, weights, settled)
            self._scheduler.add(item)

        self._events.put(add)

    def future(self, work: Work, size: int, weights: Shipped | None) -> Future[Outcome]:
        """Submit a work; the future receives its outcome."""
        found: Future[Outcome] = Future()
        self.submit(work, size, weights, found.set_result)
        return found

    def drop(self, work_id: str) -> None:
        """Cancel a work; it is not settled."""

        def cancel() -> None:
            self._entries.pop(work_id, None)
            for worker in self._scheduler.cancel(work_id):
                self.transport.drop(worker, work_id)

        self._events.put(cancel)

    def tidy(self) -> None:
        """Make all workers return free memory, after they have dropped weights that are no longer in use."""

        def tell() -> None:
            for name, known in self._known.items():
                if known.lost is None:
                    self.transport.tidy(name)

        self._events.put(tell)

    def joined(self, worker: str, facts: WorkerFacts) -> None:
        """Add a worker."""

        def join() -> None:
            again = any(each.lost is not None for each in self._known.values())
            self._known[worker] = KnownWorker(name=worker, facts=facts)
            self._scheduler.join(worker)
            if again:
                there = sum(each.lost is None for each in self._known.values())
                logger.warning("worker %s has joined; workers now: %d", worker, there)

        self._events.put(join)

    def lost(self, worker: str, cause: str, *, blame: bool) -> None:
        """Remove a worker; `blame` is True if one of its works may have caused the loss."""

        def lose() -> None:
            known = self._known.get(worker)
            if known is None or known.lost is not None:
                return
            known.lost = cause
            logger.warning("worker %s is lost: %s", worker, cause)
            for given in self._scheduler.lose(worker, cause, blame=blame):
                self._settle(given.id, Refused(error=_poisoned(given.lost)))
            lost = [name for name, each in self._known.items() if each.lost is not None]
            for name in lost[:-REMEMBERED]:
                del self._known[name]

        self._events.put(lose)

    def answered(self, worker: str, work_id: str, outcome: Outcome) -> None:
        """Process a worker's answer to a work."""

        def done() -> None:
            others = self._scheduler.done(worker, work_id)
            if others is None:
                return
            if worker in self._known:
                self._known[worker].done += 1
            for other in others:
                self.transport.drop(other, work_id)
            self._settle(work_id, outcome)

        self._events.put(done)

    def give_up(self, why: str) -> None:
        """Fail all current and later works: no worker is left."""

        def end() -> None:
            self._closed = why
            for work_id in tuple(self._entries):
                for worker in self._scheduler.cancel(work_id):
                    self.transport.drop(worker, work_id)
                self._settle(work_id, Refused(error=UnavailableError(why)))

        self._events.put(end)

    def close(self) -> None:
        """Stop the thread; works in progress are never settled."""
        self._events.put(None)
        self._thread.join()

    @property
    def workers(self) -> tuple[KnownWorker, ...]:
        """Available workers, and those lost recently."""
        return tuple(self._known.values())

    @property
    def num_retries(self) -> int:
        """Number of works repeated after a loss."""
        return self._scheduler.retries

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            try:
                goes_on = self._take_events()
                if goes_on:
                    self._assign()
            except Exception as error:  # the boundary of the thread: without it every work would wait for ever
                logger.exception("giving works to workers failed")
                self._fail(f"the server failed while giving works to workers: {type(error).__name__}")

    def _assign(self) -> None:
        for assignment in self._scheduler.assign(time.monotonic()):
            self._send(assignment)
        sent = self._scheduler.under_way
        self.under_way = {name: len(works) for name, works in sent.items()}
        somewhere = {work for works in sent.values() for work in works}
        self.num_waiting = len(self._entries) - len(somewhere)

    def _fail(self, why: str) -> None:
        """Refuse all works, now and later: the scheduler's counts may be wrong."""
        self._closed = why
        self._scheduler = Scheduler(self.limits)
        for work_id in tuple(self._entries):
            try:
                self._settle(work_id, Refused(error=UnavailableError(why)))
            except Exception:  # the others are settled all the same
                logger.exception("work %s could not be settled", work_id)
        self.failed(why)

    def _take_events(self) -> bool:
        """Wait for an event and process all pending ones, to schedule once for them; return False at the end.

        No reference to the last event remains afterwards, since it may hold a gradient.
        """
        try:
            event = self._events.get(timeout=LOOK_SECONDS if self._entries else None)
        except queue.Empty:
            return True
        while event is not None:
            event()
            if self._events.empty():
                return True
            event = self._events.get()
        return False

    def _send(self, assignment: Assignment) -> None:
        entry = self._entries[assignment.id]
        if entry.weights is not None:
            self._held.sent(entry.weights.id, assignment.worker)
        self.transport.send(assignment.worker, entry.work, entry.weights)

    def _let_go(self, weights: WeightsId) -> None:
        """Note that nothing here uses these weights any more. Called by their last holder."""

        def tell() -> None:
            for worker in self._held.let_go(weights):
                self.transport.forget(worker, weights)

        self._events.put(tell)

    def _settle(self, work_id: str, outcome: Outcome) -> None:
        entry = self._entries.pop(work_id, None)
        if entry is not None:
            entry.settled(outcome)


def _poisoned(causes: tuple[str, ...]) -> LostError:
    return LostError(
        "this request was given up: both workers that took it were lost",
        field="workers",
        value="; ".join(causes),
        fix="ask for less at once (shorter sequences, fewer samples), or give workers more memory",
    )
