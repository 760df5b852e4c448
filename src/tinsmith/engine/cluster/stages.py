"""Earlier stage of a sharded base: its layers, with the adapters, caches and graphs that the driver opened there.

The steps are those of an unsharded decoder on the same rows, so the bits are too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.engine.cache import PagePool
from tinsmith.engine.cluster.stage_calls import CachedRows, OpenedPart, PartNumbers, StageGradients, TreeRows
from tinsmith.models.adapter import release_untargeted
from tinsmith.models.decoder import Decoder, Place, Steps
from tinsmith.models.routes import Recorded, RouteRecord
from tinsmith.models.steps import LowRanks, SampleSteps, TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.functions import GivenGradient, Weight
from tinsmith.ops.linear import LowRank
from tinsmith.ops.paging import Rows
from tinsmith.types.datum import FloatArray
from tinsmith.types.errors import BackendError


@dataclass(slots=True, eq=False)
class _Recorded:
    """Forward pass whose backward pass may follow."""

    step: int
    low: LowRanks
    entered: Tensor | None
    """Input rows from the stage before; their gradient goes back there."""
    out: Tensor


class Stage:
    """Implementation of `StageCalls`. Not thread-safe: one driver, one call at a time."""

    def __init__(self, decoder: Decoder) -> None:
        """Hold the decoder of a run of layers (`build_decoder` with `layers`) other than the last."""
        self.decoder = decoder
        self._adapters: dict[int, dict[Place, LowRank]] = {}
        self._recorded: _Recorded | None = None
        self._pool: tuple[int, PagePool] | None = None
        self._routed: RouteRecord | None = None

    @property
    def num_adapters(self) -> int:
        """Number of adapters that it holds."""
        return len(self._adapters)

    @property
    def is_recording(self) -> bool:
        """True while the stage holds the values of a forward pass for its backward pass."""
        return self._recorded is not None

    def clear(self) -> None:
        """Drop everything that an earlier driver left."""
        self._adapters, self._recorded, self._pool = {}, None, None
        self._routed = None

    def open(self, adapter: int, parts: Sequence[OpenedPart]) -> list[FloatArray | None]:
        """Hold an adapter's parts under a number, and return the norm of each DoRA part, [out]."""
        low = {part.weights.place: self._opened(part) for part in parts}
        self.decoder.refresh_norms(low)
        for part in low.values():
            release_untargeted(part)
        self._adapters[adapter] = low
        return [None if part.norm is None else _sent(part.norm) for part in low.values()]

    def close(self, adapters: Sequence[int], steps: Sequence[int]) -> None:
        """Drop adapters, and the state of forward passes whose backward pass will not come."""
        for adapter in adapters:
            self._adapters.pop(adapter, None)
        if self._recorded is not None and self._recorded.step in steps:
            self._recorded = None

    def forward(self, request: TreeRows, x: FloatArray | None) -> FloatArray:
        """Compute rows from those of the stage before, [rows, H]; the first stage gets None.

        Raises:
            BackendError: it does not hold the adapter.
        """
        self._recorded = None  # of an abandoned micro-batch
        low = self._low(request.adapter)
        self._routed = RouteRecord.of(self.decoder, loads=True)
        steps = TrainSteps(self.decoder.kernels, Forest.of(request.trees), low, self._routed)
        entered = self._received(x)
        if request.step is None:
            with torch.no_grad():
                return _sent(self._through(steps, request.ids, entered))
        with ExitStack() as failed, torch.enable_grad():
            failed.callback(_end_training, low)
            for weight in _weights(low):
                weight.train()
            if entered is not None:
                entered.requires_grad_()
            out = self._through(steps, request.ids, entered)
            failed.pop_all()
        self._recorded = _Recorded(request.step, low, entered, out)
        return _sent(out)

    def backward(self, step: int, grad: FloatArray) -> StageGradients:
        """Return the gradients for the rows that `forward` returned, and drop their state.

        Raises:
            BackendError: another forward pass has come between.
        """
        recorded, self._recorded = self._recorded, None
        if recorded is None or recorded.step != step:
            raise _gone("step", step)
        # In the driver's own process this is called from its backward pass, where nothing is recorded.
        with ExitStack() as after, torch.enable_grad():
            after.callback(_end_training, recorded.low)
            given = self._received(grad)
            assert given is not None
            GivenGradient.apply(recorded.out, given).backward()  # pyright: ignore[reportOptionalMemberAccess]
            parts = tuple(_gradients(place, part) for place, part in recorded.low.items())
        entered = recorded.entered
        back = None if entered is None or entered.grad is None else _sent(entered.grad)
        return StageGradients(x=back, parts=parts)

    def open_pool(self, pool: int, capacity: int) -> None:
        """Allocate this many pages for each local layer under a number, replacing earlier ones."""
        self._pool = None
        made = PagePool(self.decoder.config, capacity, self.decoder.kernels.device)
        self._pool = (pool, made)

    def sample(self, request: CachedRows, x: FloatArray | None) -> FloatArray:
        """Compute new rows over the pages of a pool, as `forward` does without one.

        Raises:
            BackendError: the pool or the adapter is not here.
        """
        rows = Rows(
            row_begin=torch.tensor(request.row_begin),
            first_pos=torch.tensor(request.first_pos),
            positions=torch.tensor(request.positions),
            table=torch.tensor(request.table),
        )
        runs = tuple((begin, end, self._low(adapter)) for begin, end, adapter in request.runs)
        self._routed = RouteRecord.of(self.decoder)
        steps = SampleSteps(self.decoder.kernels, rows, self._pages(request.pool).layers, runs, self._routed)
        return _sent(self._through(steps, request.ids, self._received(x)))

    def routed(self) -> Recorded | None:
        """Return the mixture's routes of the rows computed last; None for a dense model."""
        return None if self._routed is None else self._routed.recorded()

    def duplicate(self, pool: int, page: int, copies: Sequence[int]) -> None:
        """Copy one page's keys and values into others, in every local layer."""
        self._pages(pool).duplicate(page, list(copies))

    def scrub(self, pool: int, pages: Sequence[int]) -> None:
        """Zero pages that may hold non-finite values."""
        self._pages(pool).scrub(list(pages))

    def _through(self, steps: Steps, ids: NDArray[np.int64], entered: Tensor | None) -> Tensor:
        if entered is None:
            entered = self.decoder.enter(steps, torch.tensor(ids, device=self._device))
        x, delta = self.decoder.through(steps, entered)
        return x if delta is None else x + delta

    def _opened(self, part: OpenedPart) -> LowRank:
        def weight(values: FloatArray) -> Weight:
            return Weight(torch.tensor(values, device=self._device))

        magnitude = part.weights.magnitude
        return LowRank(
            a=weight(part.weights.a),
            b=tuple(map(weight, part.weights.b)),
            columns=part.columns,
            scaling=part.scaling,
            magnitude=None if magnitude is None else weight(magnitude),
        )

    @property
    def _device(self) -> torch.device:
        return self.decoder.kernels.device

    def _received(self, rows: FloatArray | None) -> Tensor | None:
        """Copy received rows, since their buffer may be read-only."""
        return None if rows is None else torch.tensor(rows, device=self._device)

    def _low(self, adapter: int | None) -> Mapping[Place, LowRank]:
        if adapter is None:
            return {}
        if adapter not in self._adapters:
            raise _gone("adapter", adapter)
        return self._adapters[adapter]

    def _pages(self, pool: int) -> PagePool:
        if self._pool is None or self._pool[0] != pool:
            raise _gone("pool", pool)
        return self._pool[1]


def _weights(low: LowRanks) -> list[Weight]:
    return [weight for part in low.values() for weight in (part.a, *part.b, part.magnitude) if weight is not None]


def _end_training(low: LowRanks) -> None:
    for weight in _weights(low):
        weight.freeze()


def _gradients(place: Place, part: LowRank) -> PartNumbers:
    def of(weight: Weight) -> FloatArray:
        assert weight.grad is not None
        return _sent(weight.grad)

    magnitude = None if part.magnitude is None else of(part.magnitude)
    return PartNumbers(place=place, a=of(part.a), b=tuple(map(of, part.b)), magnitude=magnitude)


def _sent(tensor: Tensor) -> FloatArray:
    return tensor.detach().cpu().numpy()


def _gone(field: str, number: int) -> BackendError:
    return BackendError(
        "a stage of a sharded base no longer has what its driver asks for",
        field=field,
        value=number,
        fix="open the base anew: a stage was lost and started again, or has another driver",
    )
