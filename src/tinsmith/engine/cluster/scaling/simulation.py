"""Simulation of a training run: the real scheduler on simulated workers, some of them slow or lost.

All randomness is seeded and the clock is simulated: the same arguments give the same figures.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tinsmith.engine.cluster.scaling.costs import NEW_TOKEN_BYTES, ROW_BYTES, TOKEN_BYTES, Network, Workload
from tinsmith.engine.cluster.scaling.simulated_worker import SimulatedWorker
from tinsmith.engine.cluster.scaling.token_costs import Times
from tinsmith.engine.cluster.schedule import Assignment, Item, Limits, Scheduler, WorkKind

LOOK_EVERY = 1.0
"""Longest interval in seconds between two calls of the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Faults of a simulated cluster."""

    noise: float = 0.0
    """Standard deviation of the logarithm of a work's duration."""
    slow_share: float = 0.0
    """Share of slow workers."""
    slow_times: float = 3.0
    slow_for: float | None = None
    """Seconds after which slow workers are drawn again; None: they stay slow."""
    loss_every: float | None = None
    """Mean seconds between losses of any worker."""
    blamed: bool = True
    """True if a lost work may be the cause, as for a killed process; a machine lost with others blames none."""
    noticed_after: float = 3.0
    """Seconds until the scheduler learns of a loss."""
    replaced_after: float = 30.0
    """Seconds until a replacement joins."""


@dataclass(slots=True)
class Report:
    """Results of a run."""

    seconds: list[float] = field(default_factory=list[float])
    """Seconds per step."""
    sampling: list[float] = field(default_factory=list[float])
    """Seconds per step until the last group ended."""
    losses: int = 0
    retries: int = 0
    copies: int = 0
    given_up: int = 0
    bytes_out: float = 0.0
    """Bytes sent by the server."""
    bytes_in: float = 0.0

    @property
    def mean(self) -> float:
        """Mean seconds per step."""
        return sum(self.seconds) / len(self.seconds)


@dataclass(slots=True)
class _Line:
    """One direction of the server's line, on which messages queue."""

    network: Network
    free: float = 0.0
    bytes: float = 0.0

    def send(self, now: float, size: float) -> float:
        """Send this many bytes, and return their time of arrival."""
        self.bytes += size
        self.free = max(self.free, now) + size / self.network.bandwidth
        return self.free + self.network.latency


def simulate(
    times: Times,
    workload: Workload,
    network: Network,
    conditions: Conditions,
    *,
    workers: int,
    steps: int,
    seed: int = 0,
    limits: Limits | None = None,
) -> Report:
    """Simulate a training run of this many steps."""
    at_once = workload.at_once * _sample_size(workload)
    run = _Run(
        times=times,
        workload=workload,
        network=network,
        conditions=conditions,
        workers=workers,
        seed=seed,
        scheduler=Scheduler(replace(limits or Limits(), samples=at_once)),
    )
    return run.result(steps)


def ideal_seconds(times: Times, workload: Workload, workers: int, *, seed: int = 0) -> float:
    """Seconds per step if N workers were N times one, without losses or waits."""
    alone = replace(times, adapter_bytes=0, join=0.0, optimizer=0.0)
    endless = Network(bandwidth=1e18, latency=0.0)
    report = simulate(alone, workload, endless, Conditions(), workers=1, steps=1, seed=seed)
    return report.mean / workers


def _sample_size(workload: Workload) -> int:
    return workload.prompt + workload.samples * workload.longest


@dataclass(slots=True, eq=False, kw_only=True)
class _Run:
    times: Times
    workload: Workload
    network: Network
    conditions: Conditions
    workers: int
    seed: int
    scheduler: Scheduler
    now: float = 0.0
    report: Report = field(default_factory=Report)
    up: dict[str, SimulatedWorker] = field(default_factory=dict[str, SimulatedWorker])
    versions: dict[str, int] = field(default_factory=dict[str, int])
    """Versions of each worker's next event; an event of an older version is void."""
    ready: dict[str, float] = field(default_factory=dict[str, float])
    """Time at which each worker receives the adapter."""
    left: set[str] = field(default_factory=set[str])
    """Unfinished works of the phase."""
    lengths: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    rows: dict[str, int] = field(default_factory=dict[str, int])
    joined: float = 0.0
    """Time at which the server has added up all gradients received so far."""
    due: float = 0.0
    """Slow workers still to be drawn."""
    step: int = 0
    began: float = 0.0
    _events: list[tuple[float, int, Callable[[], None]]] = field(
        default_factory=list[tuple[float, int, Callable[[], None]]]
    )
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    out: _Line = field(init=False)
    back: _Line = field(init=False)
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.out, self.back = _Line(self.network), _Line(self.network)
        self.rng = random.Random(self.seed)
        self.due = self.rng.random()

    def result(self, steps: int) -> Report:
        for _ in range(self.workers):
            self._join()
        if self.conditions.loss_every is not None:
            self._at(self._until_loss(), self._lose)
        if self.conditions.slow_for is not None:
            self._at(self.conditions.slow_for, self._draw_slow)
        self._at(LOOK_EVERY, self._look)
        self._begin_step()
        while len(self.report.seconds) < steps:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.report.retries, self.report.copies = self.scheduler.retries, self.scheduler.copies
        self.report.bytes_out, self.report.bytes_in = self.out.bytes, self.back.bytes
        return self.report

    def _at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), action))

    def _look(self) -> None:
        self._assign()
        self._at(self.now + LOOK_EVERY, self._look)

    # Steps of the run.

    def _begin_step(self) -> None:
        """Submit all groups for sampling."""
        self.step += 1
        self.began = self.now
        rng = random.Random(f"{self.seed}/{self.step}")
        load = self.workload
        self.lengths = {
            f"s{self.step}/{group}": tuple(
                min(load.longest, max(1, round(load.median * rng.lognormvariate(0, load.spread))))
                for _ in range(load.samples)
            )
            for group in range(load.groups)
        }
        self._begin_phase(WorkKind.SAMPLE, dict.fromkeys(self.lengths, _sample_size(load)))

    def _begin_gradients(self) -> None:
        """Submit the gradient of all groups, in aligned blocks."""
        self.report.sampling.append(self.now - self.began)
        groups = [self.workload.prompt + sum(lengths) for lengths in self.lengths.values()]
        block = self.workload.block(self.workers)
        self.rows = {
            f"g{self.step}/{first}": sum(groups[first : first + block]) for first in range(0, len(groups), block)
        }
        self._begin_phase(WorkKind.GRADIENT, self.rows)

    def _begin_phase(self, kind: WorkKind, sizes: dict[str, int]) -> None:
        self.left = set(sizes)
        for id, size in sizes.items():
            self.scheduler.add(Item(id=id, kind=kind, size=size))
        self._assign()

    def _end_work(self, id: str) -> None:
        self.left.remove(id)
        if self.left:
            return
        if id.startswith("s"):
            self._begin_gradients()
        else:
            self._at(max(self.now, self.joined) + self.times.optimizer, self._end_step)

    def _end_step(self) -> None:
        """Broadcast the new adapter; the next step begins when all workers have it."""
        size, begun = self.times.adapter_bytes, self.now
        for number, name in enumerate(sorted(self.up), start=1):
            arrival = self.network.broadcast(size, number) + begun
            self.ready[name] = arrival + (0 if self.network.relayed else self.network.latency)
        self.out.bytes += size * len(self.up)
        ended = max(self.ready[name] for name in self.up)
        self.out.free = max(self.out.free, ended if not self.network.relayed else begun)
        self.report.seconds.append(ended - self.began)
        self._at(ended, self._begin_step)

    # Works in transit.

    def _assign(self) -> None:
        for each in self.scheduler.assign(self.now):
            sample = each.id.startswith("s")
            size = self.workload.prompt * TOKEN_BYTES if sample else self.rows[each.id] * ROW_BYTES
            arrival = max(self.out.send(self.now, size), self.ready.get(each.worker, 0.0))
            self._at(arrival, lambda each=each: self._arrive(each))

    def _arrive(self, each: Assignment) -> None:
        worker = self._advanced(each.worker)
        if worker is None:
            return
        if each.id in self.lengths:
            worker.sample(each.id, self.workload.prompt, self.lengths[each.id])
        elif each.id in self.rows and each.id in self.left:
            worker.gradient(each.id, self.rows[each.id])
        self._plan(each.worker)

    def _advanced(self, name: str) -> SimulatedWorker | None:
        """Advance a worker to now, sending what it has finished; None if it is lost."""
        worker = self.up.get(name)
        for id in worker.advance(self.now) if worker else ():
            size = sum(self.lengths.get(id, ())) * NEW_TOKEN_BYTES if id.startswith("s") else self.times.adapter_bytes
            arrival = self.back.send(self.now, size)
            self._at(arrival, lambda id=id: self._done(name, id))
        return worker

    def _plan(self, name: str) -> None:
        """Schedule the next event of a worker."""
        change = self.up[name].next_change()
        version = self.versions[name] = self.versions.get(name, 0) + 1
        if change is not None:
            self._at(change, lambda: self._change(name, version))

    def _change(self, name: str, version: int) -> None:
        if name in self.up and self.versions[name] == version:
            self._advanced(name)
            self._plan(name)

    def _done(self, name: str, id: str) -> None:
        if name not in self.up:
            return
        others = self.scheduler.done(name, id)
        if others is None:
            return
        for other in others:
            self._at(self.now + self.network.latency, lambda other=other: self._drop(other, id))
        if id.startswith("g"):
            self.joined = max(self.joined, self.now) + self.times.join
        self._end_work(id)
        self._assign()

    def _drop(self, name: str, id: str) -> None:
        worker = self._advanced(name)
        if worker is not None:
            worker.drop(id)
            self._plan(name)

    # Workers that join, are lost or become slow.

    def _join(self) -> None:
        name = f"w{next(self._numbers):06d}"
        self.up[name] = SimulatedWorker(
            times=self.times,
            rng=random.Random(f"{self.seed}/{name}"),
            noise=self.conditions.noise,
            slow=self._slow(),
            now=self.now,
        )
        if self.step:
            self.ready[name] = self.out.send(self.now, self.times.adapter_bytes)
        self.scheduler.join(name)
        self._assign()

    def _slow(self) -> float:
        """Return the slowness of the next worker; the share of slow ones is exact over a round."""
        self.due += self.conditions.slow_share
        if self.due < 1:
            return 1.0
        self.due -= 1
        return self.conditions.slow_times

    def _draw_slow(self) -> None:
        assert self.conditions.slow_for is not None
        for name in self.rng.sample(sorted(self.up), len(self.up)):
            worker = self._advanced(name)
            if worker is not None:
                worker.slow = self._slow()
                self._plan(name)
        self._at(self.now + self.conditions.slow_for, self._draw_slow)

    def _until_loss(self) -> float:
        assert self.conditions.loss_every is not None
        return self.now + self.rng.expovariate(1 / self.conditions.loss_every)

    def _lose(self) -> None:
        self._at(self._until_loss(), self._lose)
        if not self.up:
            return
        name = self.rng.choice(sorted(self.up))
        del self.up[name]
        self.report.losses += 1
        self._at(self.now + self.conditions.noticed_after, lambda: self._notice(name))
        self._at(self.now + self.conditions.replaced_after, self._join)

    def _notice(self, name: str) -> None:
        for given in self.scheduler.lose(name, "lost", blame=self.conditions.blamed):
            self.report.given_up += 1
            self._end_work(given.id)
        self._assign()
