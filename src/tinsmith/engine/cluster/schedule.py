"""Scheduler of works on workers, with retries for the works of a lost worker.

A state machine without IO, threads or a clock: its decisions follow from its calls and their times alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tinsmith.engine.cluster.items import Assignment, Given, Item, Limits, WorkKind
from tinsmith.engine.cluster.paces import Paces
from tinsmith.engine.cluster.queue import Queue

__all__ = ["Assignment", "Given", "Item", "Limits", "Scheduler", "WorkKind"]

LOSSES = 2
"""Losses after which a work in progress is abandoned."""


@dataclass(slots=True, eq=False)
class _Work:
    item: Item
    place: int
    causes: list[str] = field(default_factory=list[str])
    at: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """Workers that have it, and the time since when they compute it; None if another gradient comes first."""

    @property
    def rank(self) -> int:
        return 0 if self.causes or self.item.kind is WorkKind.SAMPLE else -self.item.size

    @property
    def owner(self) -> str:
        return "" if self.causes else self.item.owner


@dataclass(slots=True, eq=False)
class _Worker:
    name: str
    works: dict[str, _Work] = field(default_factory=dict[str, _Work])
    """Works in the order in which they were sent."""
    samples: int = 0
    """Total size of the sampling works."""
    gradients: int = 0
    apart: set[str] = field(default_factory=set[str])
    """Works that must run alone here."""

    def drop(self, work: _Work) -> None:
        del self.works[work.item.id]
        self.apart.discard(work.item.id)
        if work.item.kind is WorkKind.SAMPLE:
            self.samples -= work.item.size
        else:
            self.gradients -= 1


@dataclass(frozen=True, slots=True)
class _Ended:
    """Work that a worker ended or dropped since the last `_look_at`."""

    worker: str
    item: Item
    since: float
    whole: bool
    alone: bool


class Scheduler:
    """Scheduler of works on workers.

    Sampling works of different owners are assigned in turn, an owner's in order of arrival, each to the least loaded
    worker with room (`Limits.samples`; a slow worker has less). A worker gets one gradient work at a time and one
    ahead, the largest first; larger ones overtake the oldest one at most `Limits.passed_over` times. Each kind has its
    own room at every worker, so that neither blocks the other. A slow worker gets a work only if it would finish it
    before the others reach it.

    If no work waits, an idle worker gets a copy of another worker's: one that has not begun, or takes longer than
    `Limits.late` times the usual time there, or would end later there than on the idle worker. The first result counts:
    all have equal bits.

    A work in progress at a lost worker is repeated, in its old place, and from then on ALONE, with nothing beside it:
    this separates harmless works from one that kills workers. Some workers are reserved for that (`Limits.emptied`).
    After a second loss the work is abandoned. A second copy runs alone too, so that at least one of two losses is the
    work's own, and no work kills more than two workers.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.paces = Paces()
        self.retries = 0
        """Number of works repeated after a loss."""
        self.copies = 0
        """Number of works duplicated because the first worker was slow."""
        self._workers: dict[str, _Worker] = {}
        self._works: dict[str, _Work] = {}
        self._samples = Queue()
        self._gradients = Queue(self.limits.passed_over)
        self._struck = Queue()
        self._emptied: set[str] = set()
        self._ended: list[_Ended] = []
        self._moved: set[str] = set()
        self._count = 0

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers, sorted."""
        return tuple(sorted(self._workers))

    @property
    def waiting(self) -> tuple[str, ...]:
        """Unassigned works, in order of arrival."""
        waiting = [self._works[id] for q in self._queues for id in q]
        return tuple(work.item.id for work in sorted(waiting, key=lambda work: work.place))

    @property
    def under_way(self) -> Mapping[str, tuple[str, ...]]:
        """Works of each worker, in the order in which they were sent."""
        return {name: tuple(self._workers[name].works) for name in self.workers}

    def join(self, worker: str) -> None:
        """Add a worker; a worker that is already known stays as it is."""
        if worker not in self._workers:
            self._workers[worker] = _Worker(worker)

    def lose(self, worker: str, cause: str, *, blame: bool = True) -> list[Given]:
        """Remove a worker and requeue its works in their old places. Return the abandoned ones.

        Args:
            worker: Name of the lost worker.
            cause: Human-readable reason.
            blame: False if no work can be the reason: the worker left on request, or its machine was lost with
                others. Its works are then repeated like any other.
        """
        given: list[Given] = []
        lost = self._workers.pop(worker, None)
        self._emptied.discard(worker)
        self._moved.discard(worker)
        self.paces.forget(worker)
        for work in lost.works.values() if lost else ():
            del work.at[worker]
            if blame:
                work.causes.append(cause)
                for other in work.at:
                    self._workers[other].apart.add(work.item.id)
            if len(work.causes) >= LOSSES:
                self._forget(work)
                given.append(Given(work.item.id, tuple(work.causes)))
            elif not work.at:
                self.retries += 1
                self._queue(work).put(work.item.id, work.place, work.rank, work.owner)
        return given

    def add(self, item: Item) -> None:
        """Add a work.

        Raises:
            ValueError: Its id is that of an unfinished work.
        """
        if item.id in self._works:
            raise ValueError(f"{item.id} is under way already")
        work = self._works[item.id] = _Work(item, self._count)
        self._count += 1
        self._queue(work).put(item.id, work.place, work.rank, work.owner)

    def cancel(self, id: str) -> list[str]:
        """Cancel a work; return the workers that compute it."""
        work = self._works.get(id)
        return [] if work is None else self._forget(work)

    def done(self, worker: str, id: str) -> list[str] | None:
        """Mark a work as done, even if the worker was lost in between.

        Returns:
            The other workers that still compute it; None where it was done, cancelled or given up before.
        """
        work = self._works.get(id)
        if work is None:
            return None
        self._ended += [
            _Ended(name, work.item, since, name == worker, id in self._workers[name].apart)
            for name, since in work.at.items()
            if since is not None
        ]
        return [name for name in self._forget(work) if name != worker]

    def assign(self, now: float) -> list[Assignment]:
        """Return the works to send now; they count as sent.

        Call this after every change, and about once a second while works are in progress.

        Args:
            now: Seconds, by a clock that never goes back.
        """
        self._look_at(now)
        paces = {name: self.paces.slowness(name) for name in self._workers}
        slow = {name: pace for name, pace in paces.items() if pace > 1}
        sent = self._give_struck(now, slow) if self._struck else []
        if self._samples:
            sent += self._give_samples(now, slow)
        if self._gradients:
            sent += self._give_gradients(now, slow)
        return sent + self._give_copies(now)

    def _give_struck(self, now: float, slow: Mapping[str, float]) -> list[Assignment]:
        """Assign the works of lost workers, each to an idle worker."""
        fast = [w for w in self._workers.values() if w.name not in slow] or self._workers.values()
        self._emptied &= {worker.name for worker in fast}  # one may have become slow
        idle = self._fastest_first(worker for worker in fast if not worker.works)
        sent: list[Assignment] = []
        while self._struck and idle:
            worker = idle.pop(0)
            self._emptied.discard(worker.name)
            sent.append(self._send(self._taken(self._struck), worker, now, apart=True))
        if not self._struck:
            self._emptied.clear()
            return sent
        most = max(1, math.floor(self.limits.emptied * len(self._workers)))
        busy = [w for w in fast if not w.apart and w.name not in self._emptied]
        busy.sort(key=lambda w: (len(w.works), w.samples, w.name))
        missing = min(most, len(self._struck)) - len(self._emptied)
        self._emptied.update(worker.name for worker in busy[: max(0, missing)])
        return sent

    def _give_samples(self, now: float, slow: Mapping[str, float]) -> list[Assignment]:
        sent: list[Assignment] = []
        waiting = sum(self._works[id].item.size for id in self._samples) if slow else 0
        others = (len(self._workers) - len(slow)) * self.limits.samples
        while (id := self._samples.first()) is not None:
            size = self._works[id].item.size
            room = [
                (loaded, worker.name, worker)
                for worker in self._open()
                for loaded in ((worker.samples + size) * slow.get(worker.name, 1.0),)
                if (not worker.samples or loaded <= self.limits.samples)
                and self._is_wanted(slow.get(worker.name, 1.0), waiting, others)
            ]
            if not room:
                break
            sent.append(self._send(self._taken(self._samples), min(room)[-1], now))
            waiting -= size
        return sent

    def _give_gradients(self, now: float, slow: Mapping[str, float]) -> list[Assignment]:
        sent: list[Assignment] = []
        others = len(self._workers) - len(slow)
        while self._gradients:
            room = [
                (worker.gradients, worker.samples, worker.name, worker)
                for worker in self._open()
                if worker.gradients <= (0 if worker.name in slow else self.limits.ahead)
                and self._is_wanted(slow.get(worker.name, 1.0), len(self._gradients), others)
            ]
            if not room:
                break
            sent.append(self._send(self._taken(self._gradients), min(room)[-1], now))
        return sent

    @staticmethod
    def _is_wanted(slowness: float, waiting: float, others: float) -> bool:
        """True if a slow worker would finish a work before the others, with room for `others`, reach it."""
        return slowness <= 1 or not others or waiting > (slowness - 1) * others

    def _give_copies(self, now: float) -> list[Assignment]:
        """Duplicate late works on idle workers for which no waiting work fits."""
        idle = self._fastest_first(worker for worker in self._open() if not worker.works)
        if not idle:
            return []
        late = [
            (-self._left(work, name, since, now), since or 0.0, work.place)
            for work in self._works.values()
            if len(work.at) == 1 and not work.causes
            for name, since in work.at.items()
        ]
        places = {work.place: work for work in self._works.values()}
        sent: list[Assignment] = []
        for (left, _, place), worker in zip(sorted(late), idle, strict=False):
            alone = self.paces.usual(places[place].item, alone=True) or 0.0
            if -left > alone * self.paces.slowness(worker.name):
                sent.append(self._send(places[place], worker, now, apart=True))
        self.copies += len(sent)
        return sent

    def _left(self, work: _Work, worker: str, since: float | None, now: float) -> float:
        """Seconds until a work is likely to end at its worker: infinite if it is late or not begun."""
        usual = self.paces.usual(work.item)
        if since is None:
            return math.inf
        if usual is None:
            return 0.0
        usual *= self.paces.slowness(worker)
        return math.inf if now - since > self.limits.late * usual else usual - (now - since)

    def _send(self, work: _Work, worker: _Worker, now: float, *, apart: bool = False) -> Assignment:
        item = work.item
        ahead = item.kind is WorkKind.GRADIENT and worker.gradients > 0
        work.at[worker.name] = None if ahead else now
        worker.works[item.id] = work
        if apart:
            worker.apart.add(item.id)
        if item.kind is WorkKind.SAMPLE:
            worker.samples += item.size
        else:
            worker.gradients += 1
        return Assignment(worker.name, item.id)

    def _look_at(self, now: float) -> None:
        """Assign times to the events since the last call."""
        for ended in self._ended:
            if ended.worker not in self._workers:
                continue
            observe = self.paces.observe if ended.whole else self.paces.observe_at_least
            observe(ended.worker, ended.item, now - ended.since, alone=ended.alone)
        self._ended.clear()
        for name in sorted(self._moved):
            works = self._workers[name].works.values()
            gradients = [work for work in works if work.item.kind is WorkKind.GRADIENT]
            if gradients and all(work.at[name] is None for work in gradients):
                gradients[0].at[name] = now
        self._moved.clear()

    def _forget(self, work: _Work) -> list[str]:
        """Remove a work; return the workers that have it, sorted."""
        del self._works[work.item.id]
        names = sorted(work.at)
        for name in names:
            self._workers[name].drop(work)
            self._moved.add(name)
        if not names and len(work.causes) < LOSSES:
            self._queue(work).remove(work.item.id, work.place, work.rank, work.owner)
        return names

    def _taken(self, queue: Queue) -> _Work:
        return self._works[queue.take()]

    def _queue(self, work: _Work) -> Queue:
        if work.causes:
            return self._struck
        return self._samples if work.item.kind is WorkKind.SAMPLE else self._gradients

    @property
    def _queues(self) -> tuple[Queue, Queue, Queue]:
        return self._struck, self._samples, self._gradients

    def _open(self) -> list[_Worker]:
        """Workers that may be given a further work."""
        return [worker for name, worker in self._workers.items() if not worker.apart and name not in self._emptied]

    def _fastest_first(self, workers: Iterable[_Worker]) -> list[_Worker]:
        """Workers by pace; unobserved ones come last, before slow ones."""
        pace = self.paces
        return sorted(workers, key=lambda w: (pace.slowness(w.name), not pace.knows(w.name), w.name))
