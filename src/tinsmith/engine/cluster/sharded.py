"""Driver of a sharded base: its last stage, as a decoder that calls the earlier stages for its input.

Samplers and trainers use it as any other decoder. Adapters are complete here, and each stage is sent its part on first
use. Gradients from the stages' backward passes are added to the buffers here, in the order of an unsharded base.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.engine.cache import PagePool, SamplerLimits, cache_pages
from tinsmith.engine.cluster.stage_calls import CachedRows, OpenedPart, PartNumbers, StageCalls, TreeRows
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder, Place, Steps, linear_shapes
from tinsmith.models.routes import RouteRecord
from tinsmith.models.steps import LowRanks, SampleSteps, TrainSteps
from tinsmith.ops.functions import Weight, _Ctx  # pyright: ignore[reportPrivateUsage]
from tinsmith.ops.linear import Linear, LowRank, set_norm
from tinsmith.types.datum import FloatArray
from tinsmith.types.errors import BackendError


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Number:
    """Number of an object at the stages, which drop the object once this is unreferenced."""

    number: int
    end: weakref.finalize[..., _Number] | None = None


@dataclass(slots=True, eq=False)
class ShardedDecoder(Decoder):
    """Last stage of a base, connected to the earlier ones. Its config is the whole base's. Not thread-safe."""

    stages: tuple[StageCalls, ...] = ()
    """Earlier stages, in order."""
    cut: tuple[range, ...] = ()
    """Layers of each stage, including the last."""
    pool: ShardedPool | None = None
    """Cache that sampling uses."""
    _numbers: Iterator[int] = field(default_factory=count)
    _opened: weakref.WeakKeyDictionary[LowRank, _Number] = field(
        default_factory=weakref.WeakKeyDictionary[LowRank, _Number]
    )
    """Number of each adapter that the stages hold, by its first part there."""
    _dropped: list[int] = field(default_factory=list[int])
    """Unreferenced numbers that the stages have not dropped yet."""

    def enter(self, steps: Steps, ids: Tensor) -> Tensor:
        """Return the input of the first local layer for every row, [rows, H], by calling the earlier stages in order.

        Raises:
            BackendError: a stage lost what it held, or a sampler does not use `pool`.
        """
        if not self.stages:
            return Decoder.enter(self, steps, ids)
        self.tidy()
        rows = ids.cpu().numpy()
        match steps:
            case TrainSteps():
                return self._trained(steps, rows)
            case SampleSteps():
                return self._sampled(steps, rows)
            case _:
                raise TypeError(f"a sharded base cannot carry out {type(steps).__name__}")

    def linears(self) -> dict[Place, Linear]:
        """Linear steps of the base by place, in reading order; those of earlier stages have a shape only."""
        none = Weight(torch.empty(0, device=self.kernels.device))
        places: dict[Place, Linear] = {}
        for n in range(self.first):
            for place, (in_size, widths) in linear_shapes(self.config, n).items():
                places[place] = Linear((none,), in_size, widths)
        return {**places, **Decoder.linears(self)}

    def refresh_norms(self, low: Mapping[Place, LowRank]) -> None:
        """Update DoRA's norms, each where its base is; the stages' copy of the adapter is outdated from now on."""
        earlier = self._earlier(low)
        Decoder.refresh_norms(self, {p: part for p, part in low.items() if p not in earlier})
        for part in earlier.values():
            self._opened.pop(part, None)
        if any(part.magnitude is not None for part in earlier.values()):
            norms = self._open(earlier)
            for place, part in earlier.items():
                if (norm := norms[place]) is not None:
                    set_norm(part, torch.tensor(norm, device=self.kernels.device))

    def tidy(self) -> None:
        """Make the stages drop adapters and abandoned forward passes that are unreferenced here.

        This happens before every computing call; call it to free memory at once.
        """
        if self._dropped:
            numbers = tuple(self._dropped)
            for stage in self.stages:
                stage.close(numbers, numbers)
            del self._dropped[: len(numbers)]

    def _trained(self, steps: TrainSteps, ids: NDArray[np.int64]) -> Tensor:
        recorded = self._number() if torch.is_grad_enabled() else None
        rows = TreeRows(
            step=None if recorded is None else recorded.number,
            ids=ids,
            trees=steps.forest.trees,
            adapter=self._adapter(steps.adapter),
        )
        anchor = torch.empty(0, requires_grad=True)
        entered: Tensor = _Earlier.apply(anchor, self, rows, steps.adapter, recorded)  # pyright: ignore[reportAssignmentType]
        self._absorb(steps.routed)
        return entered

    def _sampled(self, steps: SampleSteps, ids: NDArray[np.int64]) -> Tensor:
        if self.pool is None or steps.pages is not self.pool.layers:
            raise BackendError(
                "a sampler on a sharded base needs the cache that its stages have too",
                field="pool",
                fix="make one by ShardedPool, and one sampler with it",
            )
        rows = CachedRows(
            pool=self.pool.number,
            ids=ids,
            row_begin=steps.rows.row_begin.numpy(),
            first_pos=steps.rows.first_pos.numpy(),
            positions=steps.rows.positions.numpy(),
            table=steps.rows.table.numpy(),
            runs=tuple((begin, end, self._adapter(low)) for begin, end, low in steps.runs),
        )
        x: FloatArray | None = None
        for stage in self.stages:
            x = stage.sample(rows, x)
        self._absorb(steps.routed)
        return self._received(x)

    def _absorb(self, record: RouteRecord | None) -> None:
        """Collect the routes of a mixture that the earlier stages recorded."""
        for stage in self.stages if record is not None else ():
            found = stage.routed()
            if record is not None and found is not None:
                record.absorb(found)

    def forward(self, request: TreeRows) -> Tensor:
        """Rows of whole trees at the input of this stage, [rows, H]."""
        x: FloatArray | None = None
        for stage in self.stages:
            x = stage.forward(request, x)
        return self._received(x)

    def backward(self, recorded: _Number, grad: Tensor, low: LowRanks) -> None:
        """Send the gradient of these rows back, and add the resulting adapter gradients to its buffers here."""
        given: FloatArray | None = grad.detach().cpu().numpy()
        for stage in reversed(self.stages):
            assert given is not None
            found = stage.backward(recorded.number, given)
            for part in found.parts:
                _add(low[part.place], part)
            given = found.x
        if recorded.end is not None:
            recorded.end.detach()  # no stage has anything left of it

    def _number(self) -> _Number:
        made = _Number(next(self._numbers))
        made.end = weakref.finalize(made, self._dropped.append, made.number)
        made.end.atexit = False
        return made

    def _adapter(self, low: LowRanks) -> int | None:
        """Number under which the stages hold an adapter, which is sent to them first if necessary."""
        earlier = self._earlier(low)
        first = next(iter(earlier.values()), None)
        if first is None:
            return None
        if first not in self._opened:
            self._open(earlier)
        return self._opened[first].number

    def _open(self, earlier: Mapping[Place, LowRank]) -> dict[Place, FloatArray | None]:
        """Send each stage its parts; return DoRA's norms by place."""
        self.tidy()
        opened = self._number()
        norms: dict[Place, FloatArray | None] = {}
        for stage, layers in zip(self.stages, self.cut, strict=False):
            parts = {place: part for place, part in earlier.items() if place.layer in layers}
            sent = [_sent(place, part) for place, part in parts.items()]
            norms.update(zip(parts, stage.open(opened.number, sent), strict=True))
        self._opened[next(iter(earlier.values()))] = opened
        return norms

    def _earlier(self, low: LowRanks) -> dict[Place, LowRank]:
        """Parts of an adapter on layers of earlier stages."""
        return {place: part for place, part in low.items() if 0 <= place.layer < self.first}

    def _received(self, x: FloatArray | None) -> Tensor:
        assert x is not None
        return torch.tensor(x, device=self.kernels.device)


def sharded(last: Decoder, config: DecoderConfig, stages: Sequence[StageCalls], cut: Sequence[range]) -> ShardedDecoder:
    """Connect a base's last stage to the earlier ones; `cut` lists the layers of all, `config` is the whole base's.

    The stages drop everything that an earlier driver left there.
    """
    for stage in stages:
        stage.clear()
    return ShardedDecoder(
        config=config,
        kernels=last.kernels,
        embedding=last.embedding,
        layers=last.layers,
        final_norm=last.final_norm,
        head=last.head,
        rope=last.rope,
        slots=last.slots,
        first=last.first,
        stages=tuple(stages),
        cut=tuple(cut),
    )


class ShardedPool(PagePool):
    """Page pool of the last stage's layers, mirrored in every earlier stage."""

    def __init__(self, decoder: ShardedDecoder, limits: SamplerLimits | None = None) -> None:
        """Allocate pages for all stages' layers, and become the decoder's pool.

        The default capacity is that of the longest stage alone.
        """
        longest = max(map(len, decoder.cut))
        capacity = cache_pages(replace(decoder.config, num_layers=longest), limits or SamplerLimits())
        own = replace(decoder.config, num_layers=len(decoder.layers))
        super().__init__(own, capacity, decoder.kernels.device)
        self.number = decoder.pool.number + 1 if decoder.pool is not None else 0
        self._stages = decoder.stages
        for stage in self._stages:
            stage.open_pool(self.number, capacity)
        decoder.pool = self

    def duplicate(self, page: int, copies: list[int]) -> None:
        """Copy one page's keys and values into others, in every layer of every stage."""
        super().duplicate(page, copies)
        for stage in self._stages:
            stage.duplicate(self.number, page, copies)

    def scrub(self, pages: list[int]) -> None:
        """Zero pages that may hold non-finite values before they are reused."""
        super().scrub(pages)
        for stage in self._stages:
            stage.scrub(self.number, pages)


class _Earlier(torch.autograd.Function):
    """Autograd function of all earlier stages together."""

    @staticmethod
    def forward(
        ctx: _Ctx, anchor: Tensor, decoder: ShardedDecoder, request: TreeRows, low: LowRanks, recorded: _Number | None
    ) -> Tensor:
        del anchor  # requires grad, so that autograd records what follows
        ctx.saved = (decoder, low, recorded)
        return decoder.forward(request)

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Any, ...]:
        decoder, low, recorded = ctx.saved
        decoder.backward(recorded, grads[0].contiguous(), low)
        return (None,) * 5


def _sent(place: Place, part: LowRank) -> OpenedPart:
    def values(weight: Weight) -> FloatArray:
        return weight.value.detach().cpu().numpy()

    magnitude = None if part.magnitude is None else values(part.magnitude)
    weights = PartNumbers(place=place, a=values(part.a), b=tuple(map(values, part.b)), magnitude=magnitude)
    return OpenedPart(weights=weights, columns=part.columns, scaling=part.scaling)


def _add(part: LowRank, found: PartNumbers) -> None:
    """Add a stage's gradients to the buffers of trained weights."""
    pairs = [(part.a, found.a), *zip(part.b, found.b, strict=True)]
    if part.magnitude is not None and found.magnitude is not None:
        pairs.append((part.magnitude, found.magnitude))
    for weight, grad in pairs:
        into = weight.grad
        if into is not None:
            into += torch.tensor(grad, device=into.device)
