"""Compute thread: all calls into the engine happen here, one after another.

It alternates between ready jobs (training, loading, saving) and steps of the samplers, so that neither starves the
other. Results do not depend on how they interleave.
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
"""Seconds of jobs before the samplers step again."""


class Worker:
    """Runner of jobs and sampler steps until it is stopped."""

    def __init__(
        self,
        engine: Bases,
        finished: Callable[[Sequence[Group]], None],
        stepped: Callable[[], None],
        abandoned: Callable[[Exception], None],
    ) -> None:
        """Drive `engine`.

        On the compute thread, `finished` is called with the sampling requests that ended together, `stepped` after
        every step, and `abandoned` if a step failed as a whole.
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
        """Queue a job; jobs run in the order of posting. A job records its own failures."""
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def call(self, body: Callable[[], T]) -> Future[T]:
        """Run `body` on the compute thread and forward its result or exception."""
        future: Future[T] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(body())
            except Exception as error:  # the boundary of a request: the error goes to its caller
                future.set_exception(error)

        self.post(job)
        return future

    def wake(self) -> None:
        """Check the samplers: one of them has results to deliver. Any thread may call this."""
        with self._wake:
            self._wake.notify()

    def tend(self) -> None:
        """Step the samplers. For a job on the compute thread that waits for long."""
        if self._sampling():
            self._step_all()

    @property
    def queued(self) -> int:
        """Number of waiting jobs."""
        return len(self._jobs)

    def stop(self) -> None:
        """Finish waiting jobs and the current one; sampling in progress is dropped."""
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
        """Run one long job, or all waiting short ones: a step after each submission would starve the batch."""
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
        except Exception as error:  # as above, for all sampling in progress
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
