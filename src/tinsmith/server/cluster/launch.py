"""Start of a server's workers, on a local Ray or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from tinsmith.engine.cluster.cluster_engine import ClusterEngine
from tinsmith.engine.cluster.freed_memory import keep_giving_back, share_one_heap
from tinsmith.engine.cluster.ray_runtime import join, start_local
from tinsmith.models.base import read_shape
from tinsmith.models.stages import cut_layers
from tinsmith.ops.extension import physical_cores
from tinsmith.server.cluster.ray_workers import RayWorkers
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.types.shards import check_shards

OBJECT_STORE_BYTES = 512 << 20
"""Object store of a local Ray: adapters on their way to workers, and gradients on their way back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Number and place of the workers."""

    workers: int = 0
    """Number of workers; 0 on a cluster means one per node."""
    address: str | None = None
    """Address of an existing Ray; None starts one on this machine."""
    shards: int = 1
    """Number of processes over which each base is spread."""

    def __post_init__(self) -> None:
        """Reject a number of shards that does not divide the workers evenly.

        Raises:
            ConfigError: naming the numbers that do.
        """
        check_shards(self.shards, self.workers, prefix="--")


def launch(
    where: ClusterSettings, settings: WorkerSettings, gone: Callable[[str], None]
) -> tuple[ClusterEngine, RayWorkers]:
    """Start the workers, and return once the first is ready; `gone` is called if none is left later.

    The calling thread must live as long as the server: a local Ray ends with the thread that started it.

    Raises:
        ConfigError: Ray is not installed, the cluster cannot be joined, or a model has fewer layers than shards.
        TinsmithError: workers cannot be started, with a worker's reason.
    """
    share_one_heap()
    keep_giving_back()  # this process computes nothing: it receives results
    for source in settings.models.values():
        cut_layers(read_shape(source), where.shards)
    teams = where.workers // where.shards  # of a worker's processes, one computes at a time
    if where.address is None:
        configured = os.environ.get("TINSMITH_THREADS", "")
        cores = int(configured) if configured.isdecimal() and int(configured) else physical_cores()
        threads = max(1, cores // teams)
        cluster = start_local(max(cores, where.workers), OBJECT_STORE_BYTES)
    else:
        threads, cluster = 0, join(where.address)
    workers = RayWorkers(cluster=cluster, settings=settings, wanted=teams, threads=threads, gone=gone)
    try:
        facts = workers.start()
        engine = ClusterEngine(
            settings.models,
            facts,
            workers.dispatcher,
            seed=settings.seed,
            gradient_unit=settings.gradient_unit,
            shards=where.shards,
        )
    except BaseException:
        workers.close()
        raise
    return engine, workers
