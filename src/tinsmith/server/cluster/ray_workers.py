"""Workers on Ray: started on this machine or on a cluster's, watched, and replaced when they are lost.

Ray starts processes, transfers values and reports lost processes. Its own retries are off: the scheduler repeats works.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tinsmith.engine.cluster.dispatch import Dispatcher
from tinsmith.engine.cluster.ray_runtime import Cluster, Node
from tinsmith.engine.cluster.work import Lost, Outcome, Refused, Shipped, WeightsId, Work, WorkerFacts, own_arrays
from tinsmith.server.cluster.ray_stage import RayStage
from tinsmith.server.cluster.ray_worker import RayWorker
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.types.errors import BackendError, ConfigError, TinsmithError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between checks of the workers."""
SILENT_SECONDS = 60.0
"""Seconds without an answer after which a worker counts as lost."""
WATCH_SECONDS = 0.2
"""Seconds between checks that Ray itself is alive."""
RAY_SECONDS = 20.0
"""Seconds without an answer after which Ray counts as dead."""
STARTS = 3
"""Consecutive workers lost before their first answer, after which no more are started."""
MAX_CACHED_WEIGHTS = 16
"""Versions of adapters that stay available to workers."""


@dataclass(slots=True, eq=False)
class _Process:
    """Process of a worker."""

    node: str
    """Id of its node."""
    actor: Any
    since: float = field(default_factory=time.monotonic)
    """Monotonic time at which it was last known to be alive."""
    ping: Future[int] | None = None
    memory: int = 0
    """Resident memory in bytes."""


@dataclass(slots=True, eq=False)
class _Started:
    """Worker from its start until the loss of any of its processes."""

    name: str
    processes: tuple[_Process, ...]
    """Processes, one per share of the bases."""
    joined: bool = False

    @property
    def driver(self) -> _Process:
        """Last process, which receives works and calls the others."""
        return self.processes[-1]


@dataclass(slots=True, kw_only=True)
class RayWorkers:
    """Workers of a server.

    Answers come on a thread of Ray's own, which must not wait for Ray: it ends no process itself.
    """

    cluster: Cluster
    settings: WorkerSettings
    wanted: int
    """Number of workers, each with one process per shard; 0 means one per node."""
    threads: int
    """Threads of each process's kernels; 0 means all cores of its node."""
    gone: Callable[[str], None]
    """Callback with the reason, called once when no worker is left and none can be started."""
    silent_seconds: float = SILENT_SECONDS
    dispatcher: Dispatcher = field(init=False)
    _started: dict[str, _Started] = field(default_factory=dict[str, _Started])
    _weights: OrderedDict[WeightsId, Any] = field(default_factory=OrderedDict[WeightsId, Any])
    over: str | None = None
    """Reason that there will be no more workers; None otherwise."""
    ray_is_dead: bool = False
    """True once Ray must not be called any more, as it might never answer."""
    _expected: WorkerFacts | None = None
    """Facts of the first worker, which all others must match."""
    _count: int = 0
    _failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _first: Future[WorkerFacts] = field(default_factory=Future[WorkerFacts])
    _doomed: deque[_Started] = field(default_factory=deque[_Started])
    """Lost workers that may have processes left."""
    _awake: threading.Event = field(default_factory=threading.Event)
    """Set when a worker needs attention at once."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)
    _watcher: threading.Thread = field(init=False)
    _answered_at: float = field(default_factory=time.monotonic)
    """Monotonic time of Ray's last answer."""

    def __post_init__(self) -> None:
        self.dispatcher = Dispatcher(self, failed=self._end)
        self._thread = threading.Thread(target=self._look_after, name="tinsmith-workers", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="tinsmith-ray", daemon=True)

    def start(self) -> WorkerFacts:
        """Start the workers; return the facts of the first one that is ready.

        Raises:
            TinsmithError: they cannot be started, with a worker's reason.
        """
        self._thread.start()
        self._watcher.start()
        return self._first.result()

    def send(self, worker: str, work: Work, weights: Shipped | None) -> None:
        """Send a work; its answer goes to the dispatcher."""
        known = self._started.get(worker)
        if known is None:
            return  # its loss has been reported
        try:
            refs = [] if weights is None else [self._reference(weights)]
            answer: Future[Outcome] = known.driver.actor.carry_out.remote(work, refs).future()
        except ray_failures() as error:
            self._lose(known, _message(error))
            return
        answer.add_done_callback(lambda done: self._answered(known, work.id, done))

    def drop(self, worker: str, work_id: str) -> None:
        """Tell a worker that a work's result is no longer needed."""
        self._tell(worker, lambda actor: actor.drop.remote(work_id))

    def forget(self, worker: str, weights: WeightsId) -> None:
        """Tell a worker to drop weights, and remove them from Ray's store."""
        self._weights.pop(weights, None)
        self._tell(worker, lambda actor: actor.forget.remote(weights))

    def tidy(self, worker: str) -> None:
        """Tell a worker to return its free memory."""
        self._tell(worker, lambda actor: actor.tidy.remote())

    def _tell(self, worker: str, call: Callable[[Any], object]) -> None:
        known = self._started.get(worker)
        if known is not None:
            with suppress(*ray_failures()):  # of a worker that is being lost
                call(known.driver.actor)

    @property
    def unready(self) -> str | None:
        """Reason that nothing can be computed now; None if a worker is ready."""
        if self.over is None and not self._any_joined():
            return "no worker is there; a new one is being started"
        return self.over

    @property
    def memory(self) -> dict[str, int]:
        """Latest resident memory of each worker in bytes, all its processes together."""
        return {name: sum(process.memory for process in each.processes) for name, each in tuple(self._started.items())}

    def close(self) -> None:
        """End all workers, and the Ray that was started for them."""
        self._stopping.set()
        self._awake.set()
        if self.ray_is_dead:
            self.cluster.abandon()  # a thread that waits for a dead Ray never ends
            return
        self._thread.join()
        self._watcher.join()
        self.dispatcher.close()
        self.cluster.close()

    def _reference(self, weights: Shipped) -> object:
        """Return Ray's reference to these weights: stored once, fetched by each worker once."""
        import ray

        if weights.id not in self._weights:
            self._weights[weights.id] = ray.put(dict(weights.tensors))  # pyright: ignore[reportUnknownMemberType]
            if len(self._weights) > MAX_CACHED_WEIGHTS:
                self._weights.popitem(last=False)
        self._weights.move_to_end(weights.id)
        return self._weights[weights.id]

    def _answered(self, known: _Started, work_id: str, done: Future[Outcome]) -> None:
        from ray.exceptions import OutOfMemoryError, RayActorError

        error = done.exception()
        if error is None:
            known.driver.since = time.monotonic()
            try:
                outcome = own_arrays(done.result())  # Ray's store lends them, and never shrinks
            except MemoryError:
                outcome = Refused(error=BackendError("no memory is left for a worker's answer"))
            if isinstance(outcome, Lost):
                self._lose(known, outcome.cause)
            else:
                self.dispatcher.answered(known.name, work_id, outcome)
        elif isinstance(error, (RayActorError, OutOfMemoryError, MemoryError)):
            self._lose(known, _message(error))
        else:
            logger.error("worker %s failed: %s", known.name, error)
            failed = BackendError(f"a worker failed: {_message(error)}")
            self.dispatcher.answered(known.name, work_id, Refused(error=failed))

    def _look_after(self) -> None:
        while not self._stopping.is_set():
            self._awake.clear()
            try:
                self._kill_doomed()
                self._start_missing()
                self._ping()
                self._answered_at = time.monotonic()
            except ray_failures():
                logger.exception("looking after workers failed")
            self._awake.wait(LOOK_SECONDS)

    def _watch(self) -> None:
        """Check that Ray itself is alive, without calling it: its answers may never come."""
        looked = time.monotonic()
        while not self._stopping.wait(WATCH_SECONDS):
            before, looked = looked, time.monotonic()
            if looked - before > RAY_SECONDS / 4:
                self._answered_at = looked  # this process itself was stopped in the meantime
            why = self.cluster.ended()
            if why is None and looked - self._answered_at > RAY_SECONDS:
                why = f"Ray did not answer for {RAY_SECONDS:.0f} s"
            if why is not None:
                self.ray_is_dead = True
                self._end(why)
                return

    def _end(self, why: str) -> None:
        """Fail all workers and works: no answer will come, and no worker can start."""
        with self._lock:
            if self.over is not None or self._stopping.is_set():
                return
            self.over = why
        for name in tuple(self._started):
            self._started.pop(name, None)
            self.dispatcher.lost(name, why, blame=False)
        self.dispatcher.give_up(why)
        self._settle_first(BackendError(why))
        self.gone(why)

    def _start_missing(self) -> None:
        nodes = [node for node in self.cluster.nodes() if node.cores > 0]
        alive = {node.id for node in nodes}
        for known in tuple(self._started.values()):
            if not alive.issuperset(process.node for process in known.processes):
                self._lose(known, "its machine is gone")
        if self._failed >= STARTS and not self._any_joined():
            return
        wanted = self.wanted or len(nodes)
        while len(self._started) < wanted and nodes:
            here = Counter({node.id: 0 for node in nodes})
            here.update(process.node for known in tuple(self._started.values()) for process in known.processes)
            chosen: list[Node] = []
            for _ in range(self.settings.shards):
                chosen.append(min(nodes, key=lambda node: (here[node.id], node.id)))
                here[chosen[-1].id] += 1
            if not self.wanted and here[chosen[0].id] > 1:
                return
            self._start_one(chosen)

    def _start_one(self, nodes: Sequence[Node]) -> None:
        """Start a worker with its processes on these nodes, the driver on the last."""
        with self._lock:
            name, self._count = f"worker-{self._count}", self._count + 1
        *before, last = nodes
        earlier = [self._start_process(RayStage, node, index) for index, node in enumerate(before)]
        handles = [process.actor for process in earlier]
        driver = self._start_process(RayWorker, last, handles)
        known = _Started(name, (*earlier, driver))
        self._started[name] = known
        answer: Future[WorkerFacts] = driver.actor.facts.remote().future()
        answer.add_done_callback(lambda done: self._came_up(known, done))

    def _start_process(self, kind: type[RayStage | RayWorker], node: Node, place: int | list[Any]) -> _Process:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor_class: Any = ray.remote(kind)
        actor = actor_class.options(
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=10_000,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        ).remote(self.settings, place, self.threads or node.cores)
        return _Process(node.id, actor)

    def _came_up(self, known: _Started, done: Future[WorkerFacts]) -> None:
        error = done.exception()
        if error is not None:
            self._failed_to_start(known, error)
            return
        facts = done.result()
        for process in known.processes:  # all have loaded
            process.since = time.monotonic()
        with self._lock:
            expected = self._expected = self._expected or facts
        other = _difference(expected, facts)
        if other is not None:
            logger.error("worker %s on %s is refused: its %s", known.name, facts.node, other)
            self._failed_to_start(known, ConfigError(f"its {other}"))
            return
        with self._lock:
            known.joined, self._failed = True, 0
        self.dispatcher.joined(known.name, facts)
        self._settle_first(facts)

    def _failed_to_start(self, known: _Started, error: BaseException) -> None:
        self._started.pop(known.name, None)
        self._doom(known)
        if self._stopping.is_set():
            return
        self._count_failure()
        cause = getattr(error, "cause", None) or error
        own = cause if isinstance(cause, TinsmithError) else None
        if own is not None or self._failed >= STARTS:
            self._settle_first(own or BackendError(f"no worker starts: {_message(error)}"))
        self._tell_if_none(_message(error))

    def _lose(self, known: _Started, cause: str) -> None:
        ended = self.cluster.ended()
        if ended is not None:  # the worker is not to blame
            self.ray_is_dead = True
            self._end(ended)
        if self._started.pop(known.name, None) is None or self._stopping.is_set():
            return
        self._doom(known)
        if not known.joined:
            self._count_failure()
        self.dispatcher.lost(known.name, cause, blame=True)
        self._tell_if_none(cause)

    def _tell_if_none(self, cause: str) -> None:
        """Report the failure if no worker is left and repeated starts have failed."""
        if self._failed < STARTS or self._any_joined():
            return
        self._end(f"no worker is left, and none could be started: {cause}")

    def _any_joined(self) -> bool:
        return any(each.joined for each in tuple(self._started.values()))  # a copy: other threads change it

    def _count_failure(self) -> None:
        with self._lock:
            self._failed += 1

    def _settle_first(self, outcome: WorkerFacts | TinsmithError) -> None:
        """Let `start` return or raise, unless it has already."""
        with self._lock:
            if self._first.done():
                return
            if isinstance(outcome, WorkerFacts):
                self._first.set_result(outcome)
            else:
                self._first.set_exception(outcome)

    def _ping(self) -> None:
        for known in tuple(self._started.values()):
            if not known.joined:
                continue
            for process in known.processes:
                cause = self._missing(process)
                if cause is not None:
                    self._lose(known, cause)
                    break

    def _missing(self, process: _Process) -> str | None:
        """Ping a process, unless it has yet to answer; return the reason if it counts as lost."""
        now = time.monotonic()
        if process.ping is not None and process.ping.done():
            error = process.ping.exception()
            if error is not None:
                return _message(error)
            process.since, process.memory, process.ping = now, process.ping.result(), None
        if process.ping is None:
            process.ping = process.actor.ping.remote().future()
        elif now - process.since > self.silent_seconds:
            return f"it did not answer for {self.silent_seconds:.0f} s"
        return None

    def _doom(self, known: _Started) -> None:
        self._doomed.append(known)
        self._awake.set()

    def _kill_doomed(self) -> None:
        import ray

        while self._doomed:
            for process in self._doomed.popleft().processes:
                ray.kill(process.actor)


def ray_failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that Ray raises while it shuts down."""
    from ray.exceptions import RayError

    return (RayError, RuntimeError, ValueError, OSError)


def _message(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _difference(expected: WorkerFacts, found: WorkerFacts) -> str | None:
    """Return the first difference between a worker and the first one that can affect results; None if there is none."""
    if found.source != expected.source:
        return "version of tinsmith is another"
    if found.arithmetic != expected.arithmetic:
        return "arithmetic is another"
    for name, base in expected.bases.items():
        if found.bases[name].fingerprint != base.fingerprint:
            return f"weights of {name} are others"
        if found.bases[name].certificate != base.certificate:
            return f"certificate of {name} is another: it would compute other bits"
    return None
