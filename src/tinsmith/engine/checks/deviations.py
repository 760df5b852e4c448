"""Negative controls: for each named deviation, an engine with one deliberately wrong part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tinsmith.engine.parts import SOUND, Parts, unmerged
from tinsmith.engine.sequences import Policy
from tinsmith.models.adapter import Adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.merge import merged_config, merged_weights
from tinsmith.ops.kernels import Draws, Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.types.deviation import Deviation


def parts_of(deviation: Deviation) -> Parts:
    """Return the parts of a canonical engine with this deviation; call this once per engine."""
    match deviation:
        case Deviation.NONE:
            return SOUND
        case Deviation.MERGED_ADAPTER:
            return Parts(deviation=deviation, policy_of=merged)
        case Deviation.STOCK_SILU:
            return Parts(deviation=deviation, sampling=_always(StockSilu()))
        case Deviation.SHARED_RNG:
            return Parts(deviation=deviation, sampling=_always(SharedGenerator()))
        case Deviation.REORDERED_GRADIENT:
            return Parts(deviation=deviation, order=first_taken_last)


def merged(adapter: Adapter) -> Policy:
    """Sample from W + scaling B A in one fp32 matrix; a model that is trained whole has nothing to merge."""
    if not adapter.low:
        return unmerged(adapter)
    weights = merged_weights(adapter)
    return Policy(build_decoder(merged_config(adapter), weights, adapter.decoder.kernels), {})


class StockSilu(NativeKernels):
    """Kernels with the vendor's SiLU: another exponential, and scalar code at the end of a buffer."""

    def silu_gate(self, gate_up: Tensor) -> Tensor:
        """Apply the vendor's SiLU and multiply."""
        gate, up = gate_up.detach().chunk(2, dim=1)
        return functional.silu(gate.contiguous()) * up


class SharedGenerator(NativeKernels):
    """Kernels with one random stream for all draws: the order of computation decides the numbers, not the seed."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn = 0

    def choose(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Choose tokens as usual, but with the stream's next positions."""
        count = len(draws.rows)
        first, self._drawn = self._drawn, self._drawn + count
        shared = replace(
            draws,
            seeds=np.zeros(count, np.uint64),
            samples=np.zeros(count, np.int64),
            positions=np.arange(first, first + count, dtype=np.int64),
        )
        return super().choose(logits, shared)


def first_taken_last(count: int) -> list[int]:
    """Indices of the datums from the second on, then the first; a reversed order would only swap a tree's operands."""
    return [*range(1, count), 0]


def _always(kernels: Kernels) -> Callable[[Kernels], Kernels]:
    return lambda _: kernels
