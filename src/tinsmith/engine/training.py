"""A training session: forward, backward, accumulation, optimizer step.

Datums are taken in the caller's order in micro-batches without padding. A micro-batch is a matter of memory only: each
datum's gradient is a chain of its own, added in datum order. Losses are sums over tokens; any normaliser is in the
caller's weights, fixed before the first backward.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from tinsmith.engine.optimizer import Optimizer
from tinsmith.engine.parts import DatumOrder
from tinsmith.engine.trace import StepTrace, Trace
from tinsmith.engine.validation import check_datums
from tinsmith.models.adapter import Adapter
from tinsmith.models.slots import values as published
from tinsmith.models.steps import TrainSteps, target_logprobs
from tinsmith.ops.functions import GivenGradient
from tinsmith.ops.kernels import Rows
from tinsmith.ops.losses import LOSSES, LossConfig, LossValue
from tinsmith.types.datum import AdamParams, Datum, DatumOutput, ForwardBackwardResult, LossName
from tinsmith.types.errors import InputError

_LOGITS_BUDGET = 1 << 26
"""Logits (tokens times vocabulary) one micro-batch may keep: 256 MiB in fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatches:
    """How many datums are computed at once: at most `datums` of them and `tokens` tokens (at least one datum)."""

    tokens: int = 1536
    datums: int = 1 << 30

    def split(self, lengths: Sequence[int], vocab_size: int) -> list[range]:
        """Consecutive runs of datum indices."""
        budget = min(self.tokens, max(1, _LOGITS_BUDGET // vocab_size))
        runs: list[range] = []
        start, total = 0, 0
        for i, length in enumerate(lengths):
            if i > start and (total + length > budget or i - start >= self.datums):
                runs.append(range(start, i))
                start, total = i, 0
            total += length
        runs.append(range(start, len(lengths)))
        return runs


@dataclass(slots=True)
class TrainingSession:
    """One adapter in training. Calls come one after another; each either completes or changes nothing."""

    adapter: Adapter
    micro_batches: MicroBatches = field(default_factory=MicroBatches)
    trace: Trace | None = None
    """Where its steps are marked; None: nowhere."""
    order: DatumOrder = range
    """In which order a call's datums are computed, and so their gradients added."""
    optimizer: Optimizer = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = Optimizer(self.adapter)

    def forward(
        self, datums: Sequence[Datum], loss: LossName, settings: Mapping[str, object] | None = None
    ) -> ForwardBackwardResult:
        """Log-probabilities and loss, without gradients.

        Raises:
            InputError: for a datum that cannot be computed.
        """
        with torch.no_grad():
            return self._run(datums, loss, settings or {}, backward=False)

    def forward_backward(
        self, datums: Sequence[Datum], loss: LossName, settings: Mapping[str, object] | None = None
    ) -> ForwardBackwardResult:
        """As `forward`, and add the gradient of the loss (a sum over tokens and datums) to the session's.

        Raises:
            InputError: for a datum that cannot be computed, or a loss that is not finite; no gradient is added.
        """
        with self._all_or_nothing():
            result = self._run(datums, loss, settings or {}, backward=True)
            grads = [weight.grad for weight in self.adapter.buffers() if weight.grad is not None]
            if not all(bool(grad.isfinite().all()) for grad in grads):
                raise InputError(
                    "the gradient of this batch is not finite in fp32; none of it was added",
                    field="data",
                    allowed="weights and advantages whose gradient fp32 can hold",
                )
            return result

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
        loss: LossName,
        settings: Mapping[str, object],
        *,
        backward: bool,
    ) -> ForwardBackwardResult:
        config = check_datums(datums, loss, settings, self.adapter.decoder.config)
        order = self.order(len(datums))
        ordered = [datums[i] for i in order]
        values: list[LossValue] = []
        outputs: list[DatumOutput] = []
        runs = self.micro_batches.split(
            [len(d) for d in ordered], self.adapter.decoder.config.vocab_size
        )
        for run in runs:
            for output, value in self._micro_batch(
                [ordered[i] for i in run], loss, config, run.start, backward=backward
            ):
                outputs.append(output)
                values.append(value)
        metrics = {"loss:sum": math.fsum(value.total for value in values)}
        for name in LOSSES[loss].metrics:
            metrics[f"{name}:sum"] = math.fsum(value.metrics[name] for value in values)
        by_index = dict(zip(order, outputs, strict=True))
        return ForwardBackwardResult(
            outputs=tuple(by_index[i] for i in range(len(datums))), metrics=metrics
        )

    def _micro_batch(
        self, datums: list[Datum], loss: LossName, config: LossConfig, first: int, *, backward: bool
    ) -> list[tuple[DatumOutput, LossValue]]:
        decoder = self.adapter.decoder
        device = decoder.kernels.device
        rows = Rows.whole([len(datum) for datum in datums])
        ids = torch.from_numpy(np.concatenate([d.tokens for d in datums]).astype(np.int64)).to(
            device
        )
        targets = torch.from_numpy(
            np.concatenate([d.inputs["target_tokens"] for d in datums]).astype(np.int32)
        ).to(device)
        logprobs = target_logprobs(
            decoder, TrainSteps(decoder.kernels, rows, self.adapter.low), ids, targets
        )
        flat = logprobs.detach().cpu().numpy()
        bounds = rows.row_begin.tolist()
        results: list[tuple[DatumOutput, LossValue]] = []
        for i, datum in enumerate(datums):
            own = flat[bounds[i] : bounds[i + 1]].copy()
            value = LOSSES[loss].value(own, datum.inputs, config)
            if not (
                math.isfinite(value.total)
                and np.isfinite(value.grad).all()
                and np.isfinite(own).all()
            ):
                raise InputError(
                    "the loss of a datum is not finite; no gradient was added",
                    field=f"data[{first + i}]",
                    value=value.total,
                    fix="check the sampler's logprobs and advantages; if they are right, the weights have diverged",
                )
            results.append((DatumOutput(logprobs=own), value))
        if backward:
            grad = torch.from_numpy(np.concatenate([value.grad for _, value in results])).to(device)
            GivenGradient.apply(logprobs, grad).backward()
        return results

    @contextmanager
    def _all_or_nothing(self) -> Generator[None]:
        """Put every gradient buffer back if the body does not complete."""
        buffers = [weight.grad for weight in self.adapter.buffers() if weight.grad is not None]
        before = [grad.clone() for grad in buffers]
        completed = False
        try:
            yield
            completed = True
        finally:
            if not completed:
                for grad, saved in zip(buffers, before, strict=True):
                    grad.copy_(saved)
