"""Worker process on Ray: an engine, its compute thread, and answers to the server."""

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
from tinsmith.types.errors import BackendError, InputError, TinsmithError


class RayWorker:
    """Worker. Coroutines run on one event loop, computations on one thread beside it."""

    def __init__(self, settings: WorkerSettings, stages: Sequence[Any], threads: int) -> None:
        """Start loading the bases; `stages` are the handles of the earlier processes of this worker."""
        share_one_heap()
        extension.configure(threads=threads)
        earlier = [RemoteShard(handle) for handle in stages]
        loader = ThreadPoolExecutor(1, "tinsmith-load")
        self._loading: Future[Engine | ShardedEngine] = loader.submit(load_engine, settings, earlier)
        loader.shutdown(wait=False)
        self._queued: set[str] = set()
        """Works that have not begun and are still wanted."""
        self._compiling: set[asyncio.Future[None]] = set()
        """Grammars being compiled for works that have not begun."""

    async def facts(self) -> WorkerFacts:
        """Return the facts of this worker, once it is loaded; works may be sent after that.

        Raises:
            TinsmithError: this machine cannot serve the bases.
        """
        engine = await asyncio.wrap_future(self._loading)
        self._host = Host(engine)
        self._worker = Worker(engine, self._finished, _nothing, self._host.abandon)
        self._worker.start()
        return self._host.facts()

    async def ping(self) -> int:
        """Return the resident memory in bytes; the answer shows that the process is alive."""
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
        """Cancel a work, if that is still possible."""
        self._queued.discard(work_id)
        if work_id.startswith("sample"):
            self._worker.post(lambda: self._host.drop(work_id))

    async def forget(self, weights: WeightsId) -> None:
        """Drop weights, after all works submitted before."""
        if self._compiling:
            await asyncio.wait(set(self._compiling))
        self._worker.post(lambda: self._host.forget(weights))

    async def tidy(self) -> None:
        """Return free memory to the system, after all works submitted before."""
        self._worker.post(self._host.tidy)

    async def _sampled(self, work: SampleWork, bring: FetchTensors | None) -> Outcome:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Outcome] = loop.create_future()

        def settled(outcome: Outcome) -> None:
            loop.call_soon_threadsafe(found.set_result, outcome)

        grammar: object = None
        if work.request.params.adjustments is not None:
            try:
                grammar = await self._compiled(work)
            except TinsmithError as error:
                return Refused(error=error)
        self._worker.post(lambda: self._host.sample(work, bring, settled))
        outcome = await found
        del grammar  # the grammar was held so that it need not be recompiled
        return outcome

    async def _compiled(self, work: SampleWork) -> object:
        """Compile a request's grammar while others are sampled.

        Raises:
            InputError: it does not compile, or the request was cancelled.
        """
        over = asyncio.get_running_loop().create_future()
        self._compiling.add(over)
        self._queued.add(work.id)
        try:
            grammar = await asyncio.to_thread(self._host.compiled, work)
            if work.id not in self._queued:
                raise InputError("nobody waits for this request any more")
            return grammar
        finally:
            self._queued.discard(work.id)
            self._compiling.discard(over)
            over.set_result(None)

    def _finished(self, groups: Sequence[Group]) -> None:
        for group in groups:
            self._host.finished(group)


def _nothing() -> None:
    """Ignore tokens as they are drawn: workers do not stream."""
