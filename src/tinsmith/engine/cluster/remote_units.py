"""Gradient units computed by workers: their division into blocks, and the sum of the results.

A block is a whole node of the tree by which units are added, so its sum belongs to the tree, whoever computed it.
Blocks are joined in the order of the units, not of arrival.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import torch

from tinsmith.engine.cluster.dispatch import Dispatcher
from tinsmith.engine.cluster.shipping import shipped
from tinsmith.engine.cluster.work import Computed, GradientWork, Outcome, Refused, Shipped
from tinsmith.engine.unit_gradients import Block, MicroBatches, UnitRequest
from tinsmith.engine.unit_sums import Partial, UnitSums
from tinsmith.models.adapter import Adapter
from tinsmith.types.errors import BackendError, TinsmithError

BLOCKS_A_WORKER = 8
"""Least number of blocks per worker, if there are enough units, so that workers end together and a loss costs
little."""
WAIT_SECONDS = 0.02
"""Seconds between polls of the samplers' answers while blocks are awaited."""


@dataclass(slots=True)
class ComputeRemotely:
    """Computation of units on workers."""

    dispatcher: Dispatcher
    num_workers: Callable[[], int]
    tend: Callable[[], None]
    """Called repeatedly while blocks are awaited."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _sent: WeakKeyDictionary[Adapter, tuple[int, Shipped]] = field(
        default_factory=WeakKeyDictionary[Adapter, tuple[int, Shipped]]
    )
    """Version and weights of the latest adapter; dropped together with the adapter."""

    def __call__(
        self, adapter: Adapter, sums: UnitSums, micro_batches: MicroBatches, request: UnitRequest
    ) -> Iterator[Block]:
        """Yield a block for each work.

        Raises:
            InputError: a datum cannot be computed.
            BackendError: no worker is left.
            LostError: a block took two workers down.
        """
        del micro_batches, sums  # a worker has its own
        weights = self._weights(adapter)
        blocks = _blocks([unit.num_rows for unit in request.units], request.first, self.num_workers())
        works = [self._work(weights, request, block) for block in blocks]
        futures = [
            self.dispatcher.future(work, sum(unit.num_rows for unit in work.request.units), weights) for work in works
        ]
        try:
            for block, work, future in zip(blocks, works, futures, strict=True):
                yield self._block(request, block, work, self._outcome(future))
        except BaseException:
            for work in works:
                self.dispatcher.drop(work.id)
            raise

    def _outcome(self, future: Future[Outcome]) -> Outcome:
        while not wait([future], WAIT_SECONDS, return_when=FIRST_COMPLETED).done:
            self.tend()
        return future.result()

    def _weights(self, adapter: Adapter) -> Shipped:
        version, sent = self._sent.get(adapter, (None, None))
        if sent is None or version != adapter.version:
            sent = shipped(adapter)
            self._sent.clear()
            self._sent[adapter] = (adapter.version, sent)
        return sent

    def _work(self, weights: Shipped, request: UnitRequest, block: range) -> GradientWork:
        """Return the part of a request that forms a block: its units and their datums."""
        places = sorted(i for j in block for i in request.units[j].datums)
        own = {place: i for i, place in enumerate(places)}
        part = replace(
            request,
            units=[
                replace(unit, datums=tuple(own[i] for i in unit.datums)) for unit in (request.units[j] for j in block)
            ],
            datums=[request.datums[i] for i in places],
            first=request.first + block.start,
        )
        return GradientWork(id=f"gradient-{next(self._numbers)}", weights=weights.id, request=part)

    def _block(self, request: UnitRequest, block: range, work: GradientWork, outcome: Outcome) -> Block:
        places = sorted(i for j in block for i in request.units[j].datums)
        if isinstance(outcome, Refused):
            raise _in_the_request(outcome.error, places)
        if not isinstance(outcome, Computed):
            raise BackendError(f"a worker answered {work.id} with something else")
        found = {places[i]: both for i, both in outcome.found.items()}
        if outcome.grads is None:
            return Block(found, None, outcome.routes)
        grads = [torch.from_numpy(grad) for grad in outcome.grads]
        return Block(found, Partial(request.first + block.start, grads), outcome.routes, outcome.marks)


def _blocks(sizes: Sequence[int], first: int, num_workers: int) -> list[range]:
    rows = max(1, sum(sizes) // (BLOCKS_A_WORKER * max(1, num_workers)))
    return MicroBatches(rows=max(rows, max(sizes, default=1))).split(sizes, first)


def _in_the_request(error: TinsmithError, places: Sequence[int]) -> TinsmithError:
    """Replace datum indices of the work by those of the request."""
    return error.reworded(lambda text: re.sub(r"^data\[(\d+)\]", lambda m: f"data[{places[int(m[1])]}]", text))
