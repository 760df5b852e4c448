"""The other end: a process that Ray starts, with an engine, its compute thread, and answers to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

from tinsmith.engine.cluster.freed_memory import share_one_heap
from tinsmith.engine.cluster.host import FetchTensors, Host
from tinsmith.engine.cluster.sharded_engine import ShardedEngine
from tinsmith.engine.cluster.work import Outcome, Refused, SampleWork, Tensors, WeightsId, Work, WorkerFacts
from tinsmith.engine.engine import Engine
from tinsmith.engine.sequences import Group
from tinsmith.ops import extension
from tinsmith.server.cluster.loading import load_engine, resident_bytes
from tinsmith.server.cluster.remote_shard import RemoteShard
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.server.worker import Worker
from tinsmith.types.errors import BackendError


class RayWorker:
    """One worker. Its coroutines run on one event loop, and what computes on one thread beside it."""

    def __init__(self, settings: WorkerSettings, stages: Sequence[Any], threads: int) -> None:
        """Begin to load the bases; `stages` are the handles of the earlier processes that hold them too."""
        share_one_heap()
        extension.configure(threads=threads)
        earlier = [RemoteShard(handle) for handle in stages]
        loader = ThreadPoolExecutor(1, "tinsmith-load")
        self._loading: Future[Engine | ShardedEngine] = loader.submit(load_engine, settings, earlier)
        loader.shutdown(wait=False)
        self._queued: set[str] = set()
        """Gradients that are not begun and that somebody waits for."""

    async def facts(self) -> WorkerFacts:
        """Return the facts of this worker, once it is loaded; works may be sent from then on.

        Raises:
            TinsmithError: this machine cannot serve the bases.
        """
        engine = await asyncio.wrap_future(self._loading)
        self._host = Host(engine)
        self._worker = Worker(engine, self._finished, _nothing, self._host.abandon)
        self._worker.start()
        return self._host.facts()

    async def ping(self) -> int:
        """Say that it is alive; return its resident memory in bytes."""
        return resident_bytes()

    async def carry_out(self, work: Work, weights: Sequence[Any]) -> Outcome:
        """Do a work; `weights` is empty, or one reference to its adapter's tensors."""

        def fetch() -> Tensors:
            import ray

            return cast("Mapping[str, Any]", ray.get(weights[0]))  # pyright: ignore[reportUnknownMemberType]

        bring = fetch if weights else None
        if isinstance(work, SampleWork):
            return await self._sampled(work, bring)
        compute = work

        def body() -> Outcome:
            try:
                self._queued.remove(compute.id)
            except KeyError:
                return Refused(error=BackendError("nobody waits for this work any more"))
            return self._host.compute(compute, bring)

        self._queued.add(compute.id)
        return await asyncio.wrap_future(self._worker.call(body))

    async def drop(self, work_id: str) -> None:
        """Give up on a work, if that is still possible."""
        if work_id.startswith("sample"):
            self._worker.post(lambda: self._host.drop(work_id))
        else:
            self._queued.discard(work_id)

    async def forget(self, weights: WeightsId) -> None:
        """Drop weights, after the works that came before."""
        self._worker.post(lambda: self._host.forget(weights))

    async def tidy(self) -> None:
        """Give back memory that is free, after the works that came before."""
        self._worker.post(self._host.tidy)

    async def _sampled(self, work: SampleWork, bring: FetchTensors | None) -> Outcome:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Outcome] = loop.create_future()

        def settled(outcome: Outcome) -> None:
            loop.call_soon_threadsafe(found.set_result, outcome)

        self._worker.post(lambda: self._host.sample(work, bring, settled))
        return await found

    def _finished(self, groups: Sequence[Group]) -> None:
        for group in groups:
            self._host.finished(group)


def _nothing() -> None:
    """Nobody follows samples token by token here."""
