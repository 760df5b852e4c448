"""The compute thread: every call into the engine happens here, one after another.

It alternates between ready jobs (training, loading, saving) and steps of the samplers, so that neither starves the
other. Nothing that is computed depends on how they interleave.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tinsmith.engine.engine import Engine
from tinsmith.engine.sequences import Group

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Worker:
    """Runs jobs and sampler steps until it is stopped."""

    def __init__(self, engine: Engine, finished: Callable[[Group], None]) -> None:
        """Drive `engine`; `finished` is called on the compute thread for every sampling request that ended."""
        self._engine = engine
        self._finished = finished
        self._jobs: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="tinsmith-compute", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, job: Callable[[], None]) -> None:
        """Run a job soon; jobs run in the order they are posted. A job records its own failures."""
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def call(self, body: Callable[[], T]) -> Future[T]:
        """Run `body` on the compute thread and hand its result or exception over."""
        future: Future[T] = Future()

        def job() -> None:
            try:
                future.set_result(body())
            except Exception as error:  # the boundary of a request: it is handed to whoever asked
                future.set_exception(error)

        self.post(job)
        return future

    @property
    def queued(self) -> int:
        """Jobs that wait."""
        return len(self._jobs)

    def stop(self) -> None:
        """Finish the jobs that wait and the job under way; sampling under way is dropped."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._jobs or self._stopping or self._sampling()):
                    self._wake.wait()
                if self._stopping and not self._jobs:
                    return
                job = self._jobs.popleft() if self._jobs else None
            if job is not None:
                job()
            if not self._stopping:
                self._step()

    def _sampling(self) -> bool:
        return any(sampler.busy for sampler in self._engine.samplers)

    def _step(self) -> None:
        for sampler in self._engine.samplers:
            if sampler.busy:
                for group in sampler.step():
                    self._finished(group)
