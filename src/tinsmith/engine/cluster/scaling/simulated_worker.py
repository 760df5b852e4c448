"""Simulated worker: prompts and gradients take time one after the other, answers are decoded together."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field

from tinsmith.engine.cluster.scaling.token_costs import Times


@dataclass(slots=True)
class _Job:
    """Job computed on its own."""

    id: str
    seconds: float
    lengths: tuple[int, ...] = ()
    """Lengths of the answers to decode after the prompt; empty for a gradient."""


@dataclass(slots=True, eq=False)
class SimulatedWorker:
    """State of a simulated worker: its jobs and their progress."""

    times: Times
    rng: random.Random
    noise: float
    """Standard deviation of the logarithm of a work's duration; the mean is 1."""
    slow: float = 1.0
    """Slowdown factor."""
    now: float = 0.0
    _steps: float = 0.0
    """Decoding steps so far."""
    _jobs: deque[_Job] = field(default_factory=deque[_Job])
    _answers: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """Heap of the steps at which answers end."""
    _left: dict[str, int] = field(default_factory=dict[str, int])
    """Unfinished answers per group."""
    _luck: float = 1.0

    def sample(self, id: str, prompt: int, lengths: tuple[int, ...]) -> None:
        """Start a sampling work."""
        self._luck = self._drawn()
        self._jobs.append(_Job(id, prompt * self.times.prompt_token * self._luck, lengths))

    def gradient(self, id: str, rows: int) -> None:
        """Start a gradient work."""
        self._jobs.append(_Job(id, rows * self.times.gradient_row * self._drawn()))

    def drop(self, id: str) -> None:
        """Abandon a work."""
        self._jobs = deque(job for job in self._jobs if job.id != id)
        if self._left.pop(id, 0):
            self._answers = [answer for answer in self._answers if answer[1] != id]
            heapq.heapify(self._answers)

    def next_change(self) -> float | None:
        """Return the time of the next end of a job or answer, if nothing intervenes; None if the worker is idle."""
        if self._jobs:
            return self.now + self._jobs[0].seconds * self.slow
        if self._answers:
            return self.now + (self._answers[0][0] - self._steps) * self._step_seconds()
        return None

    def advance(self, now: float) -> list[str]:
        """Compute until `now`; return the works that ended, in order."""
        ended: list[str] = []
        while (change := self.next_change()) is not None and change <= now:
            self.now = change
            if self._jobs:
                job = self._jobs.popleft()
                if not job.lengths:
                    ended.append(job.id)
                    continue
                self._left[job.id] = len(job.lengths)
                for length in job.lengths:
                    heapq.heappush(self._answers, (self._steps + length, job.id))
                continue
            self._steps, id = heapq.heappop(self._answers)
            self._left[id] -= 1
            if not self._left[id]:
                del self._left[id]
                ended.append(id)
        if self._jobs:
            self._jobs[0].seconds -= (now - self.now) / self.slow
        elif self._answers:
            self._steps += (now - self.now) / self._step_seconds()
        self.now = now
        return ended

    def _step_seconds(self) -> float:
        together = len(self._answers)
        seconds = self.times.decode_step + together * self.times.new_token
        return seconds * self._luck * self.slow

    def _drawn(self) -> float:
        return self.rng.lognormvariate(-(self.noise**2) / 2, self.noise) if self.noise else 1.0
