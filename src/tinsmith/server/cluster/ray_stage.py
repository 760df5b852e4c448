"""Actor for an earlier process of a sharded worker: it holds stages and serves the last process's calls."""

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
"""Calls after which memory can be returned to the system."""


class RayStage:
    """Process with stages. Coroutines run on one event loop, computations on one thread beside it."""

    def __init__(self, settings: WorkerSettings, index: int, threads: int) -> None:
        """Become process `index` of the worker, and start loading."""
        share_one_heap()
        extension.configure(threads=threads)
        self._thread = ThreadPoolExecutor(1, "tinsmith-compute")
        self._shard = self._thread.submit(load_shard, settings, index)
        self._stages: dict[tuple[str, bool], Stage] = {}

    async def facts(self) -> ShardFacts:
        """Return the facts of its share of the bases, once it is loaded.

        Raises:
            TinsmithError: this machine cannot serve it.
        """
        return (await asyncio.wrap_future(self._shard)).facts()

    async def ping(self) -> int:
        """Return the resident memory in bytes; the answer shows that the process is alive."""
        return resident_bytes()

    async def call(self, name: str, quantised: bool, method: Callable[..., T], given: tuple[Any, ...]) -> T:
        """Call a method of the stage of one form of a base; the stage is loaded on first use."""

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
