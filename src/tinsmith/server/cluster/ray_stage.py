"""An earlier process of a worker that is several: it holds its stages, and does what the last process asks of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tinsmith.engine.cluster.freed_memory import give_back_freed_memory, share_one_heap
from tinsmith.engine.cluster.shard import ShardFacts
from tinsmith.engine.cluster.stages import Stage
from tinsmith.ops import extension
from tinsmith.server.cluster.loading import load_shard, resident_bytes
from tinsmith.server.cluster.settings import WorkerSettings

T = TypeVar("T")

_HEAVY = frozenset({Stage.clear, Stage.open_pool, Stage.close, Stage.backward})
"""After these there is memory to give back."""


class RayStage:
    """One such process. Its coroutines run on one event loop, and what computes on one thread beside it."""

    def __init__(self, settings: WorkerSettings, index: int, threads: int) -> None:
        """Be number `index` of the worker's processes; begin to load."""
        share_one_heap()
        extension.configure(threads=threads)
        self._thread = ThreadPoolExecutor(1, "tinsmith-compute")
        self._shard = self._thread.submit(load_shard, settings, index)
        self._stages: dict[tuple[str, bool], Stage] = {}

    async def facts(self) -> ShardFacts:
        """Return the facts of its share of the bases, once that is loaded.

        Raises:
            TinsmithError: this machine cannot serve it.
        """
        return (await asyncio.wrap_future(self._shard)).facts()

    async def ping(self) -> int:
        """Say that it is alive; return its resident memory in bytes."""
        return resident_bytes()

    async def call(self, name: str, quantised: bool, method: Callable[..., T], given: tuple[Any, ...]) -> T:
        """Call a method of the stage of one form of a base; the stage is read when first asked for."""

        def body() -> T:
            key = (name, quantised)
            if key not in self._stages:
                shard = self._shard.result()
                self._stages[key] = Stage(shard.decoder(name, quantised=quantised))
            result = method(self._stages[key], *given)
            if method in _HEAVY:
                give_back_freed_memory()
            return result

        return await asyncio.get_running_loop().run_in_executor(self._thread, body)
