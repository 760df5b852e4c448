"""Computation of gradient units in micro-batches: requests, results and the local implementation.

Micro-batches affect memory only: each unit's gradient is a chain of its own, and a micro-batch is a whole node of the
tree by which units are added (`unit_sums.py`). So is a block that a worker computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from tinsmith.engine.trace import unit_digest
from tinsmith.engine.unit_sums import Partial, UnitSums
from tinsmith.engine.units import Unit
from tinsmith.models.adapter import Adapter
from tinsmith.models.config import DecoderConfig
from tinsmith.models.routes import RouteRecord, RouteSums
from tinsmith.models.steps import TrainSteps, target_logprobs
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.ops.forest import Forest, Reads
from tinsmith.ops.functions import GivenGradient
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.ops.objectives.objective import Objective, objective_of
from tinsmith.types.datum import Datum, DatumOutput, LossName
from tinsmith.types.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatches:
    """Limit on units computed at once: at most `units` of them and `rows` rows, but one unit however large."""

    rows: int = 1536
    units: int = 1 << 30
    memory: int = 768 << 20
    """Bytes of activations on a CPU; on SmolLM2 more were no faster. A unit with more than four times as many
    recomputes its activations in the backward pass."""

    def rows_in_memory(self, config: DecoderConfig) -> int:
        """Return the number of rows whose activations take `memory` bytes.

        A layer holds for its backward pass, in fp32, about ten times a row's hidden values and four times its inner.
        """
        mixture = config.mixture
        inner = config.intermediate_size if mixture is None else mixture.expert_size * mixture.num_active
        return self.memory // (4 * config.num_layers * (10 * config.hidden_size + 4 * inner))

    def split(self, sizes: Sequence[int], first: int = 0) -> list[range]:
        """Consecutive blocks of units, each a whole node of the tree of sums: 2^k of them from a multiple of 2^k on.

        `sizes` are the units' rows, `first` the number of the first one.
        """
        blocks: list[range] = []
        start = 0
        while start < len(sizes):
            size = 1
            while (first + start) % (2 * size) == 0 and start + 2 * size <= len(sizes):
                if 2 * size > self.units or sum(sizes[start : start + 2 * size]) > self.rows:
                    break
                size *= 2
            blocks.append(range(start, start + size))
            start += size
        return blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitRequest:
    """Units to compute with an adapter's current weights."""

    units: Sequence[Unit]
    datums: Sequence[Datum]
    """Datums, which the units refer to by their index here."""
    loss: LossName | CustomLoss
    settings: Mapping[str, object]
    first: int
    """Number of the first unit since the last optimizer step."""
    backward: bool
    marked: bool = False
    """True if each unit is computed on its own and its gradient's digest is returned."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Results of consecutive units."""

    found: Mapping[int, tuple[DatumOutput, LossValue]]
    """Output and loss per datum."""
    partial: Partial | None
    """Sum of their gradients, a whole node of the tree; None without a backward pass."""
    routes: RouteSums | None = None
    """Expert loads of a mixture, over the units' rows."""
    marks: tuple[str, ...] = ()
    """Digests of the units' gradients, if requested."""


class ComputeUnits(Protocol):
    """Computation of a request's units, local or remote, yielding blocks in order.

    Raises InputError for a datum that cannot be computed; blocks yielded before are then void.
    """

    def __call__(
        self, adapter: Adapter, sums: UnitSums, micro_batches: MicroBatches, request: UnitRequest
    ) -> Iterator[Block]:
        """Yield blocks that are whole nodes of the tree of sums."""
        ...


class ComputeHere:
    """Computation of units in this process, with the buffers of the sums."""

    def __call__(
        self, adapter: Adapter, sums: UnitSums, micro_batches: MicroBatches, request: UnitRequest
    ) -> Iterator[Block]:
        """Yield a block for each micro-batch."""
        objective = objective_of(request.loss, request.settings)
        sizes = [unit.num_rows for unit in request.units]
        marked = request.marked and request.backward
        batches = replace(micro_batches, units=1) if marked else micro_batches
        on_cpu = adapter.decoder.kernels.device.type == "cpu"
        in_memory = batches.rows_in_memory(adapter.decoder.config) if on_cpu else 1 << 30
        batches = replace(batches, rows=min(batches.rows, in_memory))
        for block in batches.split(sizes, request.first):
            units = [request.units[i] for i in block]
            if request.backward:
                sums.fresh()
            recompute = request.backward and sum(sizes[i] for i in block) > 4 * in_memory
            found, routes = self.micro_batch(
                adapter, units, request.datums, objective, backward=request.backward, recompute=recompute
            )
            partial = sums.taken(request.first + block.start) if request.backward else None
            yield Block(found, partial, routes, (unit_digest(partial.grads),) if marked and partial is not None else ())

    def micro_batch(
        self,
        adapter: Adapter,
        units: list[Unit],
        datums: Sequence[Datum],
        objective: Objective,
        *,
        backward: bool,
        recompute: bool = False,
    ) -> tuple[dict[int, tuple[DatumOutput, LossValue]], RouteSums | None]:
        """Compute units, adding their gradients to the weights' buffers.

        Returns output and loss per datum, and a mixture's loads.
        """
        decoder = adapter.decoder
        device = decoder.kernels.device
        forest = Forest.of([unit.nodes for unit in units])
        begins = forest.units.tolist()
        read = [
            (i, begin + rows, datums[i].inputs["target_tokens"])
            for begin, unit in zip(begins, units, strict=False)
            for i, rows in zip(unit.datums, unit.rows_of, strict=True)
        ]
        reads = Reads(
            rows=np.concatenate([np.repeat(rows, t.size // len(rows)) for _, rows, t in read]),
            targets=np.concatenate([targets.ravel() for _, _, targets in read]).astype(np.int32),
        )
        ids = torch.from_numpy(np.concatenate([unit.tokens for unit in units]).astype(np.int64))
        record = RouteRecord.of(decoder, loads=True)
        steps = TrainSteps(decoder.kernels, forest, adapter.low, record, recompute)
        logprobs = target_logprobs(decoder, steps, ids.to(device), reads)
        flat = logprobs.detach().cpu().numpy()
        digests = None if record is None else record.digests(len(ids))
        results: dict[int, tuple[DatumOutput, LossValue]] = {}
        at = 0
        for i, rows, targets in read:
            own = flat[at : at + targets.size].reshape(targets.shape).copy()
            at += targets.size
            try:
                value = objective.value(own, datums[i].inputs)
            except InputError as error:
                raise error.located_at(f"data[{i}]") from None
            if not (math.isfinite(value.total) and np.isfinite(own).all()):
                raise InputError(
                    "the loss of a datum is not finite; no gradient was added",
                    field=f"data[{i}]",
                    value=value.total,
                    fix="check the sampler's logprobs and advantages; if they are right, the weights have diverged",
                )
            if not np.isfinite(value.grad).all():
                raise InputError(
                    "the loss of a datum is finite, but its gradient is not finite; no gradient was added",
                    field=f"data[{i}]",
                    value=value.total,
                    fix="check the inputs, and the loss where its slope is infinite: sqrt, log or a division at 0",
                )
            routes = None if digests is None else digests[rows]
            results[i] = (DatumOutput(logprobs=own, routes=routes), value)
        if backward:
            grad = np.concatenate([value.grad.ravel() for _, value in results.values()])
            GivenGradient.apply(logprobs, torch.from_numpy(grad).to(device)).backward()
        return results, None if record is None else record.sums(len(ids))
