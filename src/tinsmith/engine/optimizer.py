"""AdamW over a session's weights, from the exact gradient sum: moments, clipping and step.

The gradient's global norm is a sum of squares in fp64 over slots in name order. Source: Adam arXiv:1412.6980 alg. 1,
decoupled decay arXiv:1711.05101 alg. 2; bias corrections by repeated multiplication, since a library's pow may differ
between machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tinsmith.engine.unit_sums import UnitSums
from tinsmith.models.adapter import Adapter
from tinsmith.ops.functions import Weight
from tinsmith.ops.kernels import AdamStep
from tinsmith.types.datum import AdamParams
from tinsmith.types.errors import InputError

_LARGEST_NORM = 1e18
"""Largest gradient norm whose squares fp32 can sum without overflow."""


def check(params: AdamParams) -> None:
    """Reject settings out of range.

    Raises:
        InputError: naming the setting, its value and its range.
    """
    largest, smallest = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
    decay = params.learning_rate * params.weight_decay
    ranges = {
        "learning_rate": (params.learning_rate, 0.0, largest, "0 to the largest fp32 number"),
        "beta1": (params.beta1, 0.0, 1.0, "0 <= beta1 < 1"),
        "beta2": (params.beta2, 0.0, 1.0, "0 <= beta2 < 1"),
        "eps": (params.eps, smallest, largest, f"a normal fp32 number, >= {smallest:.2e}"),
        "weight_decay": (params.weight_decay, 0.0, largest, "0 to the largest fp32 number"),
        "learning_rate * weight_decay": (decay, 0.0, 1.0, "0 <= product < 1"),
        "grad_clip_norm": (params.grad_clip_norm, 0.0, math.inf, "finite, >= 0 (0: no clipping)"),
    }
    for name, (value, low, high, allowed) in ranges.items():
        if not low <= value < high:
            raise InputError("an optimizer setting is out of range", field=name, value=value, allowed=allowed)


def _power(base: float, exponent: int) -> float:
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@dataclass(slots=True)
class Optimizer:
    """Moments per trained weight, of the same shape, and the number of steps taken."""

    adapter: Adapter
    step_count: int = 0
    moments: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict[int, tuple[Tensor, Tensor]])

    sums: UnitSums = field(init=False)
    """Gradient since the last step."""

    def __post_init__(self) -> None:
        self.sums = UnitSums(self.adapter.buffers())
        for weight in self.adapter.weights():
            self.moments[id(weight)] = (torch.zeros_like(weight.value), torch.zeros_like(weight.value))

    def moments_of(self, weight: Weight) -> tuple[Tensor, Tensor]:
        """First and second moment of one weight."""
        return self.moments[id(weight)]

    def gradient_norm(self) -> float:
        """L2 norm of the summed gradient, over slots sorted by name."""
        kernels = self.adapter.decoder.kernels
        gradient = self.gradient()
        return math.sqrt(math.fsum(kernels.sum_squares(gradient[name]) for name in sorted(gradient)))

    def gradient(self) -> dict[str, Tensor]:
        """Summed gradient under published names."""
        sums = self.summed()
        slots = self.adapter.slots
        return {slot.name: slot.view(sums[id(slot.weight)]).contiguous() for slot in slots}

    def summed(self) -> dict[int, Tensor]:
        """Gradient of each trained weight, summed over all its uses in a fixed order."""
        of_buffer = dict(zip(map(id, self.sums.weights), self.sums.total(), strict=True))
        sums: dict[int, Tensor] = {}
        for weight, sources in self.adapter.gradient_sources():
            total: Tensor | None = None
            for source, transposed in sources:
                grad = of_buffer[id(source)]
                part = grad.t() if transposed else grad
                total = part if total is None else (total + part).contiguous()
            assert total is not None
            sums[id(weight)] = total
        return sums

    def step(self, params: AdamParams) -> float:
        """Apply the accumulated gradient, clear it, and return its norm before clipping.

        Raises:
            InputError: for settings out of range, or a gradient that is not finite; nothing is changed.
        """
        check(params)
        norm = self.gradient_norm()
        scale = 1.0
        if params.grad_clip_norm > 0 and norm > params.grad_clip_norm:
            scale = params.grad_clip_norm / norm
        if not norm * scale < _LARGEST_NORM:
            raise InputError(
                "the gradient is not finite or too large for fp32 moments: no step was taken",
                field="gradient norm",
                value=norm * scale,
                allowed=f"below {_LARGEST_NORM:.0e} after clipping",
                fix="set grad_clip_norm, or look at the loss inputs; to start again load a checkpoint",
            )
        self.step_count += 1
        settings = AdamStep(
            learning_rate=params.learning_rate,
            beta1=params.beta1,
            beta2=params.beta2,
            eps=params.eps,
            weight_decay=params.weight_decay,
            grad_scale=scale,
            bias1=1.0 - _power(params.beta1, self.step_count),
            bias2=1.0 - _power(params.beta2, self.step_count),
        )
        kernels, sums = self.adapter.decoder.kernels, self.summed()
        for weight in self.adapter.weights():
            m, v = self.moments_of(weight)
            kernels.adam(weight.value, sums[id(weight)], m, v, settings)
        self.clear()
        self.adapter.changed()
        return norm

    def clear(self) -> None:
        """Clear the accumulated gradient."""
        self.sums.clear()
