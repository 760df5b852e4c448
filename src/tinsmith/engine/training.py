"""A training session: forward, backward, accumulation, optimizer step.

A request is cut into units of gradient (`units.py`), and these are computed in micro-batches without padding. A
micro-batch is a matter of memory only: each unit's gradient is a chain of its own, and the units' are added by a fixed
tree (`unit_sums.py`). Losses are sums over tokens; any normaliser is in the caller's weights, fixed before the first
backward.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from tinsmith.engine.optimizer import Optimizer
from tinsmith.engine.parts import DatumOrder
from tinsmith.engine.trace import StepTrace, Trace
from tinsmith.engine.unit_sums import Partial, joined
from tinsmith.engine.units import TREE_ROWS, Unit, units_of
from tinsmith.engine.validation import check_datums
from tinsmith.models.adapter import Adapter
from tinsmith.models.slots import values as published
from tinsmith.models.steps import TrainSteps, target_logprobs
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.ops.forest import Forest, Reads
from tinsmith.ops.functions import GivenGradient
from tinsmith.ops.losses import LossValue
from tinsmith.ops.objective import Objective, objective_of
from tinsmith.types.datum import AdamParams, Datum, DatumOutput, ForwardBackwardResult, LossName
from tinsmith.types.errors import InputError
from tinsmith.types.gradient import GradientUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatches:
    """How many units are computed at once: at most `units` of them and `rows` rows, but one unit however large."""

    rows: int = 1536
    units: int = 1 << 30

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


@dataclass(slots=True)
class TrainingSession:
    """One adapter in training. Calls come one after another; each either completes or changes nothing."""

    adapter: Adapter
    micro_batches: MicroBatches = field(default_factory=MicroBatches)
    gradient_unit: GradientUnit = GradientUnit.TREE
    tree_rows: int = TREE_ROWS
    """Most rows of a tree of several datums; another limit is another cut, with bits of its own."""
    trace: Trace | None = None
    """Where its steps are marked; None: nowhere."""
    order: DatumOrder = range
    """In which order a call's datums are taken, and so their units numbered."""
    optimizer: Optimizer = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = Optimizer(self.adapter)

    def forward(
        self,
        datums: Sequence[Datum],
        loss: LossName | CustomLoss,
        settings: Mapping[str, object] | None = None,
    ) -> ForwardBackwardResult:
        """Log-probabilities and loss, without gradients.

        Raises:
            InputError: for a datum that cannot be computed.
        """
        with torch.no_grad():
            return self._run(datums, loss, settings or {}, backward=False)

    def forward_backward(
        self,
        datums: Sequence[Datum],
        loss: LossName | CustomLoss,
        settings: Mapping[str, object] | None = None,
    ) -> ForwardBackwardResult:
        """As `forward`, and add the gradient of the loss (a sum over tokens and datums) to the session's.

        Raises:
            InputError: for a datum that cannot be computed, or a loss that is not finite; no gradient is added.
        """
        return self._run(datums, loss, settings or {}, backward=True)

    def optim_step(self, params: AdamParams) -> dict[str, float]:
        """Step with the accumulated gradient, clear it, and return `grad_norm:mean` (before clipping).

        Raises:
            InputError: for settings out of range or a gradient that is not finite; nothing is changed.
        """
        trace = self.trace
        gradient = {} if trace is None else trace.marks(self.optimizer.gradient())
        norm = self.optimizer.step(params)
        if trace is not None:
            weights = trace.marks(published(self.adapter.slots))
            step = self.optimizer.step_count
            trace.add(StepTrace(step=step, gradient=gradient, weights=weights))
        return {"grad_norm:mean": norm}

    def _run(
        self,
        datums: Sequence[Datum],
        loss: LossName | CustomLoss,
        settings: Mapping[str, object],
        *,
        backward: bool,
    ) -> ForwardBackwardResult:
        objective = objective_of(loss, settings)
        check_datums(datums, objective, self.adapter.decoder.config)
        order = self.order(len(datums))
        ordered = [datums[i] for i in order]
        units = units_of(
            [datum.tokens for datum in ordered], self.gradient_unit, tree_rows=self.tree_rows
        )
        sums = self.optimizer.sums
        partials = list(sums.partials)
        found: dict[int, tuple[DatumOutput, LossValue]] = {}
        for block in self.micro_batches.split([unit.num_rows for unit in units], sums.count):
            if backward:
                sums.fresh()
            found.update(
                self._micro_batch([units[i] for i in block], ordered, objective, backward=backward)
            )
            if backward:
                partials = joined(partials, sums.taken(sums.count + block.start))
        if backward:
            _require_finite(partials)
            sums.commit(partials, len(units))
        by_index = {order[i]: results for i, results in found.items()}
        values = [by_index[i][1] for i in range(len(datums))]
        return ForwardBackwardResult(
            outputs=tuple(by_index[i][0] for i in range(len(datums))),
            metrics=objective.metrics(values),
        )

    def _micro_batch(
        self,
        units: list[Unit],
        datums: Sequence[Datum],
        objective: Objective,
        *,
        backward: bool,
    ) -> dict[int, tuple[DatumOutput, LossValue]]:
        """Compute some units of a request; by datum, what the model said and its loss."""
        decoder = self.adapter.decoder
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
        logprobs = target_logprobs(
            decoder,
            TrainSteps(decoder.kernels, forest, self.adapter.low),
            ids.to(device),
            reads,
        )
        flat = logprobs.detach().cpu().numpy()
        results: dict[int, tuple[DatumOutput, LossValue]] = {}
        at = 0
        for i, _, targets in read:
            own = flat[at : at + targets.size].reshape(targets.shape).copy()
            at += targets.size
            try:
                value = objective.value(own, datums[i].inputs)
            except InputError as error:
                raise error.told_at(f"data[{i}]") from None
            if not (
                math.isfinite(value.total)
                and np.isfinite(value.grad).all()
                and np.isfinite(own).all()
            ):
                raise InputError(
                    "the loss of a datum is not finite; no gradient was added",
                    field=f"data[{i}]",
                    value=value.total,
                    fix="check the sampler's logprobs and advantages; if they are right, the weights have diverged",
                )
            results[i] = (DatumOutput(logprobs=own), value)
        if backward:
            grad = np.concatenate([value.grad.ravel() for _, value in results.values()])
            GivenGradient.apply(logprobs, torch.from_numpy(grad).to(device)).backward()
        return results


def _require_finite(partials: Sequence[Partial]) -> None:
    found = [grad for partial in partials if not partial.committed for grad in partial.grads]
    if not all(bool(grad.isfinite().all()) for grad in found):
        raise InputError(
            "the gradient of this batch is not finite in fp32; none of it was added",
            field="data",
            allowed="weights and advantages whose gradient fp32 can hold",
        )
