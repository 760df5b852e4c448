"""The compute thread: every call into the engine happens here, one after another.

It alternates between ready jobs (training, loading, saving) and steps of the samplers, so that neither starves the
other. Nothing that is computed depends on how they interleave.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from tinsmith.engine.bases import Bases
from tinsmith.engine.sequences import Group

logger = logging.getLogger(__name__)

T = TypeVar("T")

JOBS_SECONDS = 0.02
"""Seconds that jobs are started for before the samplers have a step again."""


class Worker:
    """Runs jobs and sampler steps until it is stopped."""

    def __init__(
        self,
        engine: Bases,
        finished: Callable[[Sequence[Group]], None],
        stepped: Callable[[], None],
        abandoned: Callable[[Exception], None],
    ) -> None:
        """Drive `engine`.

        On the compute thread, `finished` is called with the sampling requests that ended together, and `stepped` after
        every step; `abandoned` when a step failed, which no single request is to blame for.
        """
        self._engine = engine
        self._finished = finished
        self._stepped = stepped
        self._abandoned = abandoned
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
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(body())
            except Exception as error:  # the boundary of a request: it is handed to whoever asked
                future.set_exception(error)

        self.post(job)
        return future

    def wake(self) -> None:
        """Look at the samplers again: one of them has something to hand over. Any thread may call this."""
        with self._wake:
            self._wake.notify()

    def tend(self) -> None:
        """Step the samplers. For a job that waits for something long, on the compute thread."""
        if self._sampling():
            self._step_all()

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
            self._run_jobs()
            if not self._stopping:
                self._step_all()

    def _run_jobs(self) -> None:
        """Run one long job, or as many short ones as wait: a step for each submission would starve the batch."""
        end = time.monotonic() + JOBS_SECONDS
        while self._jobs:
            try:
                self._jobs.popleft()()
            except Exception:  # its request is lost; the thread must serve the others
                logger.exception("a job failed without a record")
            if time.monotonic() > end:
                return

    def _sampling(self) -> bool:
        return any(sampler.busy for sampler in self._engine.samplers_by_name.values())

    def _step_all(self) -> None:
        try:
            self._step()
        except Exception as error:  # as above, for all that is being sampled
            logger.exception("sampling failed")
            self._abandoned(error)

    def _step(self) -> None:
        for sampler in self._engine.samplers_by_name.values():
            if sampler.busy:
                ended = sampler.step()
                for group in ended:
                    if group.result is not None:
                        self._engine.sampled_routes.keep(group.request, group.result)
                if ended:
                    self._finished(ended)
                self._stepped()
