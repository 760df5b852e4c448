"""Training session: forward, backward, accumulation, optimizer step.

A request is cut into units of gradient (`units.py`), and these are computed in micro-batches without padding.
Micro-batches affect memory only: each unit's gradient is a chain of its own, and the units' are added by a fixed tree
(`unit_sums.py`). Losses are sums over tokens; any normaliser is in the caller's weights, fixed before the first
backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from tinsmith.engine.optimizer import Optimizer
from tinsmith.engine.parts import DatumOrder
from tinsmith.engine.sampled_routes import SampledRoutes
from tinsmith.engine.trace import StepTrace, Trace
from tinsmith.engine.unit_gradients import ComputeHere, ComputeUnits, MicroBatches, UnitRequest
from tinsmith.engine.unit_sums import Partial, joined
from tinsmith.engine.units import TREE_ROWS, units_of
from tinsmith.engine.validation import check_datums
from tinsmith.models.adapter import Adapter
from tinsmith.models.routes import RouteSums, added, route_metrics
from tinsmith.models.slots import values as published
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.ops.objectives.objective import objective_of
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import AdamParams, Datum, DatumOutput, ForwardBackwardResult, LossName
from tinsmith.types.errors import InputError


@dataclass(slots=True)
class TrainingSession:
    """Adapter in training. Calls are sequential; each either completes or changes nothing."""

    adapter: Adapter
    micro_batches: MicroBatches = field(default_factory=MicroBatches)
    gradient_unit: GradientUnit = GradientUnit.TREE
    tree_rows: int = TREE_ROWS
    """Most rows of a tree of several datums; another limit cuts differently and gives other bits."""
    trace: Trace | None = None
    """Trace of its steps; None if none is recorded."""
    order: DatumOrder = range
    """Order of a call's datums, which numbers their units."""
    compute: ComputeUnits = field(default_factory=ComputeHere)
    """Computation of a request's units; results do not depend on it."""
    sampled: SampledRoutes | None = None
    """Routes of sampled sequences, to compare with a mixture's routes in training; None for no comparison."""
    optimizer: Optimizer = field(init=False)
    _marks: list[str] = field(default_factory=list[str])
    """Digests of the units since the last step."""

    def __post_init__(self) -> None:
        self.optimizer = Optimizer(self.adapter)

    def forward(
        self, datums: Sequence[Datum], loss: LossName | CustomLoss, settings: Mapping[str, object] | None = None
    ) -> ForwardBackwardResult:
        """Return log-probabilities and loss, without gradients.

        Raises:
            InputError: for a datum that cannot be computed.
        """
        with torch.no_grad():
            return self._run(datums, loss, settings or {}, backward=False)

    def forward_backward(
        self, datums: Sequence[Datum], loss: LossName | CustomLoss, settings: Mapping[str, object] | None = None
    ) -> ForwardBackwardResult:
        """Compute as `forward` does, and add the gradient of the loss (a sum over tokens and datums) to the session's.

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
            trace.add(StepTrace(step=step, gradient=gradient, weights=weights, units=tuple(self._marks)))
            self._marks.clear()
        return {"grad_norm:mean": norm}

    def _run(
        self, datums: Sequence[Datum], loss: LossName | CustomLoss, settings: Mapping[str, object], *, backward: bool
    ) -> ForwardBackwardResult:
        objective = objective_of(loss, settings)
        check_datums(datums, objective, self.adapter.decoder.config)
        order = self.order(len(datums))
        ordered = [datums[i] for i in order]
        units = units_of([datum.tokens for datum in ordered], self.gradient_unit, tree_rows=self.tree_rows)
        sums = self.optimizer.sums
        request = UnitRequest(
            units=units, datums=ordered, loss=loss, settings=settings, first=sums.count, backward=backward,
            marked=self.trace is not None and self.trace.marks_units,
        )  # fmt: skip
        marks = list[str]()
        if not sums.count:
            self._marks.clear()
        partials, by_position = list(sums.partials), dict[int, tuple[DatumOutput, LossValue]]()
        routes: RouteSums | None = None
        for block in self.compute(self.adapter, sums, self.micro_batches, request):
            by_position.update(block.found)
            routes = added(routes, block.routes)
            marks += block.marks
            if block.partial is not None:
                partials = joined(partials, block.partial)
        if backward:
            _require_finite(self.adapter.decoder.kernels, partials)
            sums.commit(partials, len(units))
            self._marks += marks
        by_index = {order[i]: results for i, results in by_position.items()}
        values = [by_index[i][1] for i in range(len(datums))]
        outputs = tuple(by_index[i][0] for i in range(len(datums)))
        metrics = dict(objective.metrics(values))
        mixture = self.adapter.decoder.config.mixture
        if routes is not None and mixture is not None:
            metrics |= route_metrics(routes, mixture)
        if self.sampled is not None:
            metrics |= self.sampled.compared(zip(datums, outputs, strict=True))
        return ForwardBackwardResult(outputs=outputs, metrics=metrics)


def _require_finite(kernels: Kernels, partials: Sequence[Partial]) -> None:
    found = [grad for partial in partials if not partial.committed for grad in partial.grads]
    if not kernels.finite(found):
        raise InputError(
            "the gradient of this batch is not finite in fp32; none of it was added",
            field="data",
            allowed="weights and advantages whose gradient fp32 can hold",
        )
