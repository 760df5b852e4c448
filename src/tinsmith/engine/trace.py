"""Trace of a model's last optimizer steps: a mark of every gradient and every weight, tensor by tensor.

With it two runs that differ can be told apart to the step and the tensor where it began. It is kept by whoever wants it
(the service does); a session without one pays nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops.kernels import Kernels
from tinsmith.types.sketches import TensorMark, digest, signs, sketch

KEPT = 64
"""Steps a trace holds; older ones are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """One optimizer step. Tensors by published name, sorted."""

    step: int
    """The optimizer's own count: 1 is the model's first step, and a loaded model goes on counting."""
    gradient: Mapping[str, TensorMark]
    """As accumulated, before clipping."""
    weights: Mapping[str, TensorMark]
    """After the step."""
    units: tuple[str, ...] = ()
    """Of each unit of gradient since the step before, in order: `unit_digest`; nothing where nobody asked for them."""


def as_json(steps: Sequence[StepTrace]) -> bytes:
    """Return steps as a client gets them: a step without marks of units says nothing of them."""
    plain = msgspec.to_builtins(steps)
    return msgspec.json.encode({"steps": [{k: v for k, v in one.items() if k != "units" or v} for one in plain]})


def unit_digest(grads: Sequence[Tensor]) -> str:
    """Return the SHA-256 of a unit's gradient: its buffers in their order, fp32, -0.0 as +0.0.

    A unit of gradient is a value of its own, so that anybody can compute one of them again, on any machine.
    """
    whole = hashlib.sha256()
    for grad in grads:
        flat: NDArray[np.float32] = grad.detach().contiguous().cpu().numpy().ravel() + np.float32(0)
        whole.update(flat.astype("<f4", copy=False).data)
    return whole.hexdigest()


@dataclass(slots=True)
class Trace:
    """The last steps of one model, ascending. Written on one thread; any may read `steps`, which is replaced whole."""

    kernels: Kernels
    marks_units: bool = False
    """True if each unit of gradient is marked too, for which each is computed by itself."""
    steps: tuple[StepTrace, ...] = ()
    _signs: dict[str, NDArray[np.uint8]] = field(default_factory=dict[str, NDArray[np.uint8]])

    def marks(self, tensors: Mapping[str, Tensor]) -> dict[str, TensorMark]:
        """Mark tensors, sorted by name."""
        return {name: self._mark(name, tensors[name]) for name in sorted(tensors)}

    def add(self, step: StepTrace) -> None:
        """Keep a step; a model that was set back to an earlier one forgets those from there."""
        before = tuple(one for one in self.steps if one.step < step.step)
        self.steps = (*before[-KEPT + 1 :], step)

    def after(self, step: int) -> tuple[StepTrace, ...]:
        """The steps that are kept of those after `step`."""
        return tuple(one for one in self.steps if one.step > step)

    def _mark(self, name: str, tensor: Tensor) -> TensorMark:
        whole = tensor.detach().contiguous()
        flat: NDArray[np.float32] = whole.cpu().numpy().ravel() + np.float32(0)  # -0.0 is +0.0
        if name not in self._signs:
            self._signs[name] = signs(name, len(flat))
        projections = sketch(flat, self._signs[name])
        return TensorMark(
            sha256=digest(flat),
            norm=None if projections is None else math.sqrt(self.kernels.sum_squares(whole)),
            sketch=projections,
        )
