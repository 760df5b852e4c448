"""`/metrics`: totals of the whole server for Prometheus, without names or figures of single keys.

Counters are incremented at their events; everything else is computed on request.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tinsmith.server.access.guard import Answered
from tinsmith.server.prometheus import Labels, Metric, MetricKind
from tinsmith.server.service import Service


@dataclass(slots=True)
class Answers:
    """Counts of finished requests by route, method and status; an observer of the guard."""

    counts: Counter[tuple[str, str, int]] = field(default_factory=Counter[tuple[str, str, int]])

    def __call__(self, answered: Answered) -> None:
        """Count one."""
        method = answered.method if answered.method in _METHODS else "other"
        self.counts[answered.route, method, answered.status] += 1


_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
"""Known methods; clients may invent any number of others."""


def metrics(service: Service, answers: Answers) -> Iterator[Metric]:
    """Yield all current metrics."""
    counter, gauge = MetricKind.COUNTER, MetricKind.GAUGE
    yield Metric(
        "tinsmith_http_requests_total",
        counter,
        "Requests that are over.",
        [
            ({"route": route, "method": method, "status": str(status)}, float(count))
            for (route, method, status), count in sorted(answers.counts.items())
        ],
    )
    samplers, runs = service.samplers, service.runs
    totals: tuple[tuple[str, MetricKind, str, float], ...] = (
        (
            "tinsmith_sampled_tokens_total",
            counter,
            "Tokens drawn by sampling requests that are over.",
            samplers.num_tokens,
        ),
        (
            "tinsmith_trained_tokens_total",
            counter,
            "Target tokens of training and forward requests carried out.",
            runs.num_tokens,
        ),
        ("tinsmith_optimizer_steps_total", counter, "Optimizer steps.", runs.num_steps),
        (
            "tinsmith_requests_under_way",
            gauge,
            "Requests accepted and without a result yet.",
            service.futures.usage.num_requests,
        ),
        ("tinsmith_jobs_waiting", gauge, "Jobs that wait for the compute thread.", service.worker.queued),
        (
            "tinsmith_sampling_requests_under_way",
            gauge,
            "Sampling requests handed to the engine.",
            len(samplers.under_way),
        ),
        ("tinsmith_models_in_memory", gauge, "Models in training.", len(runs.live)),
    )
    for name, kind, description, value in totals:
        yield Metric(name, kind, description, [({}, float(value))])
    yield from _engine(service)
    if service.workers is not None:
        yield from service.workers.metrics()
    yield from _process()


def _engine(service: Service) -> Iterator[Metric]:
    """Yield the metrics of each base model's sampler."""
    running: list[tuple[Labels, float]] = []
    used: list[tuple[Labels, float]] = []
    held: list[tuple[Labels, float]] = []
    reused: list[tuple[Labels, float]] = []
    for name, sampler in service.engine.samplers_by_name.items():
        labels = {"model": name}
        running.append((labels, float(sampler.num_running)))
        if sampler.cache is not None:
            used.append((labels, float(sampler.cache.capacity - sampler.cache.available)))
            held.append((labels, float(sampler.cache.capacity)))
            reused.append((labels, float(sampler.cache.num_reused)))
    gauge = MetricKind.GAUGE
    yield Metric("tinsmith_samples_running", gauge, "Samples that are being decoded.", running)
    yield Metric("tinsmith_kv_pages_in_use", gauge, "Pages of the KV cache in use or set aside.", used)
    yield Metric("tinsmith_kv_pages_capacity", gauge, "Pages of the KV cache.", held)
    yield Metric(
        "tinsmith_prompt_tokens_reused_total",
        MetricKind.COUNTER,
        "Tokens of prompts that were in the KV cache already.",
        reused,
    )


def _process() -> Iterator[Metric]:
    yield Metric(
        "process_cpu_seconds_total", MetricKind.COUNTER, "Processor time, in seconds.", [({}, time.process_time())]
    )
    statm = Path("/proc/self/statm")
    if statm.exists():  # of Linux only
        resident = int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        yield Metric(
            "process_resident_memory_bytes", MetricKind.GAUGE, "Resident memory, in bytes.", [({}, float(resident))]
        )
