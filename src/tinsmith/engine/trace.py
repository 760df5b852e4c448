"""Trace of a model's last optimizer steps: a digest and sketch of every gradient and weight tensor.

It locates the first step and tensor at which two runs differ. The service records one; a session without a trace has no
overhead.
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

MAX_STEPS = 64
"""Steps that a trace retains; older ones are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """Record of one optimizer step. Tensors by published name, sorted."""

    step: int
    """Step count of the optimizer: 1 is the model's first step, and a loaded model continues its count."""
    gradient: Mapping[str, TensorMark]
    """Accumulated gradient, before clipping."""
    weights: Mapping[str, TensorMark]
    """Weights after the step."""
    units: tuple[str, ...] = ()
    """`unit_digest` of each gradient unit since the step before, in order; empty unless requested."""


def as_json(steps: Sequence[StepTrace]) -> bytes:
    """Encode steps for a client; `units` is left out if empty."""
    plain = msgspec.to_builtins(steps)
    return msgspec.json.encode({"steps": [{k: v for k, v in one.items() if k != "units" or v} for one in plain]})


def unit_digest(grads: Sequence[Tensor]) -> str:
    """Return the SHA-256 of a unit's gradient: its buffers in their order, fp32, -0.0 as +0.0.

    A gradient unit does not depend on the others, so that a single one can be recomputed on any machine.
    """
    whole = hashlib.sha256()
    for grad in grads:
        flat: NDArray[np.float32] = grad.detach().contiguous().cpu().numpy().ravel() + np.float32(0)
        whole.update(flat.astype("<f4", copy=False).data)
    return whole.hexdigest()


@dataclass(slots=True)
class Trace:
    """Latest steps of one model, ascending. Written on one thread; any may read `steps`, a replaced tuple."""

    kernels: Kernels
    marks_units: bool = False
    """True if each gradient unit is digested too; each is then computed on its own."""
    steps: tuple[StepTrace, ...] = ()
    _signs: dict[str, NDArray[np.uint8]] = field(default_factory=dict[str, NDArray[np.uint8]])

    def marks(self, tensors: Mapping[str, Tensor]) -> dict[str, TensorMark]:
        """Digest and sketch tensors, sorted by name."""
        return {name: self._mark(name, tensors[name]) for name in sorted(tensors)}

    def add(self, step: StepTrace) -> None:
        """Add a step; steps of the same or a later number are dropped, as after a rollback."""
        before = tuple(one for one in self.steps if one.step < step.step)
        self.steps = (*before[-MAX_STEPS + 1 :], step)

    def after(self, step: int) -> tuple[StepTrace, ...]:
        """Return the retained steps after `step`."""
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
