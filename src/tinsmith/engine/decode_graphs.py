"""Recorded decoding steps that are replayed: one graph per model, adapter and number of rows.

A decoding step is hundreds of small launches, which take longer than the computation itself. Row counts are powers of
two: padding rows read and write a page of their own, and change no other row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_
from typing import Final

import numpy as np
import torch
from torch import Tensor

from tinsmith.engine.cache import PagePool
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.steps import LowRanks, SampleSteps
from tinsmith.ops.kernels import Kernels, Recorded
from tinsmith.ops.paging import Rows

MOST_ROWS: Final = 256
"""Rows of the widest graph; a wider step has enough work to hide its launches."""
MOST_BYTES: Final = 16 << 20
"""Bytes of activations of the widest graph if each number of rows has a graph of its own."""
_POLICIES: Final = 4
"""Limits of the cache: models with adapters, each with its weights; and graphs, if each number of rows has one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """Recorded step, and the one buffer with its varying inputs: ids, positions, page table."""

    decoder: Decoder
    inputs: Tensor
    steps: SampleSteps
    recorded: Recorded | None
    """Recording; None if the step cannot be recorded."""
    gains: tuple[Tensor | None, ...]
    """DoRA's gains in the adapter's order. They are reallocated when its weights change; all else changes in place."""

    def still(self, low: LowRanks) -> bool:
        """True if the adapter still has the recorded tensors."""
        return all(map(is_, self.gains, (part.gain for part in low.values())))


@dataclass(slots=True)
class DecodeGraphs:
    """Graphs of one sampler. A step is recorded once its shape has occurred twice in a row."""

    kernels: Kernels
    pool: PagePool
    _graphs: dict[tuple[int, ...], _Graph] = field(default_factory=dict[tuple[int, ...], _Graph])
    """Graphs by model, adapter, rows and columns of the page table; the most recently used comes last."""
    _latest: tuple[int, ...] = ()

    def hidden(self, decoder: Decoder, low: LowRanks, rows: Rows, ids: Tensor) -> Tensor | None:
        """Return the last hidden rows of one token per sequence, valid until the next step; None if unrecorded."""
        count, width = rows.table.shape
        if len(ids) != count or count > self._most_rows(decoder.config):
            return None
        size = (1 << (count - 1).bit_length() if self.kernels.pads_steps else count, 1 << (width - 1).bit_length())
        key = (id(decoder), id(low), *size)
        latest, self._latest = self._latest, key
        graph = self._graphs.pop(key, None)
        if graph is None or not graph.still(low):
            if latest != key:
                return None
            graph = self._record(decoder, low, *size)
        self._graphs[key] = graph
        if graph.recorded is None:
            return None
        own = np.zeros((2, size[0]), np.int64)
        own[0, :count], own[1, :count] = ids.numpy(), rows.first_pos.numpy()
        table = np.full(size, self.pool.spare, np.int32)
        table[:count, :width] = rows.table.numpy()
        given = np.concatenate([own.view(np.uint8).ravel(), table.view(np.uint8).ravel()])
        graph.inputs.copy_(torch.from_numpy(given))
        graph.recorded.replay()
        return graph.recorded.out[:count]

    def _most_rows(self, config: DecoderConfig) -> int:
        if self.kernels.pads_steps:
            return MOST_ROWS
        floats = 5 * config.hidden_size + 3 * config.q_size + 4 * config.kv_size + 3 * config.intermediate_size
        return min(MOST_ROWS, MOST_BYTES // (4 * floats * config.num_layers))

    def _forget(self, policy: tuple[int, ...]) -> None:
        """Evict graphs to make room for one of this model and adapter."""
        if self.kernels.pads_steps:
            retained = [*list(dict.fromkeys(key[:2] for key in reversed(self._graphs)))[: _POLICIES - 1], policy]
            self._graphs = {key: graph for key, graph in self._graphs.items() if key[:2] in retained}
            return
        # Host memory is scarce: a graph holds only the weights that are sampled from now.
        own = {key: graph for key, graph in self._graphs.items() if key[:2] == policy}
        self._graphs = dict(list(own.items())[1 - _POLICIES :])

    def _record(self, decoder: Decoder, low: LowRanks, count: int, width: int) -> _Graph:
        self._forget((id(decoder), id(low)))
        device = self.kernels.device
        inputs = torch.zeros(16 * count + 4 * count * width, dtype=torch.uint8, device=device)
        ids, first_pos = inputs[: 16 * count].view(torch.int64).view(2, count)
        table = inputs[16 * count :].view(torch.int32).view(count, width)
        table.fill_(self.pool.spare)
        begin = torch.arange(count + 1, device=device)
        rows = Rows(row_begin=begin, first_pos=first_pos, positions=first_pos, table=table)
        steps = SampleSteps(self.kernels, rows, self.pool.layers, ((0, count, low),))
        recorded, gains = self.kernels.recorded(lambda: decoder.hidden(steps, ids)), [one.gain for one in low.values()]
        return _Graph(decoder, inputs, steps, recorded, tuple(gains))
