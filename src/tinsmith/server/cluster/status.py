"""Status of a server's workers: `/api/v1/tinsmith/workers`, and their lines in `/metrics`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tinsmith.server.cluster.ray_workers import RayWorkers
from tinsmith.server.prometheus import Labels, Metric, MetricKind

RATE_SECONDS = 60.0
"""Window of the mean rate of tokens."""


@dataclass(slots=True)
class WorkersStatus:
    """Current status of the workers."""

    workers: RayWorkers
    num_tokens: Callable[[], int]
    """Tokens sampled and trained so far."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    def answer(self) -> dict[str, object]:
        """Return the endpoint's answer."""
        dispatcher = self.workers.dispatcher
        under_way = dispatcher.under_way
        return {
            "workers": [
                {
                    "name": each.name,
                    "node": each.facts.node,
                    "threads": each.facts.threads,
                    "pid": each.facts.pid,
                    "alive": each.lost is None,
                    "under_way": under_way.get(each.name, 0),
                    "done": each.done,
                    "lost": each.lost,
                    "memory": self.workers.memory.get(each.name),
                }
                for each in dispatcher.workers
            ],
            "wanted": self.workers.wanted or None,
            "unready": self.workers.unready,
            "retries": dispatcher.num_retries,
            "waiting": dispatcher.num_waiting,
            "tokens_per_second": self._rate(),
            "dashboard": self.workers.cluster.dashboard,
        }

    def metrics(self) -> Iterator[Metric]:
        """Yield the workers' metrics for Prometheus."""
        dispatcher = self.workers.dispatcher
        under_way, counter, gauge = dispatcher.under_way, MetricKind.COUNTER, MetricKind.GAUGE
        alive = [each for each in dispatcher.workers if each.lost is None]

        def by_worker(value: Callable[[str], float]) -> list[tuple[Labels, float]]:
            return [({"worker": each.name}, float(value(each.name))) for each in alive]

        done = {each.name: each.done for each in alive}
        memory = self.workers.memory
        yield Metric("tinsmith_workers", gauge, "Workers alive.", [({}, float(len(alive)))])
        ready = float(self.workers.unready is None)
        yield Metric("tinsmith_ready", gauge, "1 if requests can be computed, as healthz says.", [({}, ready)])
        yield Metric(
            "tinsmith_worker_works_under_way",
            gauge,
            "Requests and blocks of gradient that a worker has.",
            by_worker(lambda name: under_way.get(name, 0)),
        )
        yield Metric(
            "tinsmith_worker_works_done_total",
            counter,
            "Works that a worker was the first to answer.",
            by_worker(lambda name: done[name]),
        )
        yield Metric(
            "tinsmith_worker_resident_memory_bytes",
            gauge,
            "Resident memory of a worker.",
            by_worker(lambda name: memory.get(name, 0)),
        )
        yield Metric(
            "tinsmith_works_waiting", gauge, "Works that no worker has.", [({}, float(dispatcher.num_waiting))]
        )
        yield Metric(
            "tinsmith_works_retried_total",
            counter,
            "Works done again after a worker was lost.",
            [({}, float(dispatcher.num_retries))],
        )

    def _rate(self) -> float:
        """Return the tokens per second since the oldest sample of the last minute."""
        now, tokens = time.monotonic(), self.num_tokens()
        self._samples.append((now, tokens))
        while now - self._samples[0][0] > RATE_SECONDS and len(self._samples) > 2:
            self._samples.popleft()
        since, before = self._samples[0]
        return (tokens - before) / (now - since) if now > since else 0.0
