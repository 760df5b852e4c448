"""Loading in a worker's process, on a thread, so that its event loop stays responsive."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.cluster.freed_memory import give_back_freed_memory, keep_giving_back, take_small_pages
from tinsmith.engine.cluster.shard import EarlierShard, Shard
from tinsmith.engine.cluster.sharded_engine import ShardedEngine
from tinsmith.engine.engine import Engine
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.types.home import certificates_folder


def load_engine(settings: WorkerSettings, earlier: Sequence[EarlierShard]) -> Engine | ShardedEngine:
    """Load the bases and check the arithmetic: all of them, or the last share behind the `earlier` ones.

    Raises:
        TinsmithError: this machine cannot serve them, or the machine of an earlier share cannot.
        StageLostError: an earlier share is gone.
    """
    how = MicroBatches(units=settings.micro_batch) if settings.micro_batch else None
    if settings.shards > 1:
        return ShardedEngine(
            load_shard(settings, settings.shards - 1), earlier, micro_batches=how, gradient_unit=settings.gradient_unit
        )
    return Engine(
        settings.models,
        arithmetic=settings.arithmetic,
        seed=settings.seed,
        micro_batches=how,
        gradient_unit=settings.gradient_unit,
        hold=settings.hold,
        certificate_store=CertificateStore(certificates_folder()),
    )


def load_shard(settings: WorkerSettings, index: int) -> Shard:
    """Locate the bases, and check the arithmetic on a share of them.

    Raises:
        TinsmithError: this machine cannot serve it.
    """
    keep_giving_back()
    take_small_pages()
    made = Shard(
        settings.models,
        index=index,
        count=settings.shards,
        arithmetic=settings.arithmetic,
        seed=settings.seed,
        hold=settings.hold,
        certificate_store=CertificateStore(certificates_folder()),
    )
    give_back_freed_memory()
    return made


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 if the system does not report it."""
    statm = Path("/proc/self/statm")
    if not statm.exists():  # of Linux only
        return 0
    return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
