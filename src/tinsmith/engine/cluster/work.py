"""Requests to a worker and its answers: plain values, the same whoever computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tinsmith.engine.unit_gradients import UnitRequest
from tinsmith.models.routes import RouteSums
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.datum import DatumOutput, FloatArray
from tinsmith.types.errors import TinsmithError
from tinsmith.types.sampling import SampleRequest, SampleResult

Tensors = Mapping[str, FloatArray]
"""An adapter's weights by published name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsId:
    """Identity of weights: those of a served base, and of an adapter by its content."""

    name: str
    """The served base model."""
    quantised: bool
    spec: AdapterSpec | None
    """None: the base alone."""
    sha256: str
    """Of the adapter's tensors; "" where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Shipped:
    """Weights that can be sent to whoever does not hold them, for as long as anything here holds this."""

    id: WeightsId
    tensors: Tensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleWork:
    """A sampling request."""

    id: str
    weights: WeightsId
    request: SampleRequest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientWork:
    """An aligned block of units of gradient, or units forward only."""

    id: str
    weights: WeightsId
    asked: UnitRequest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FreshWork:
    """The initial weights of an adapter, or of a copy of the base that is to be trained whole."""

    id: str
    name: str
    spec: AdapterSpec


Work = SampleWork | GradientWork | FreshWork


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampled:
    """The samples of a request."""

    result: SampleResult


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Computed:
    """Results of some units."""

    found: Mapping[int, tuple[DatumOutput, LossValue]]
    """By the datum's place among the work's own: what the model said, and its loss, whose gradient is left out."""
    grads: Sequence[NDArray[np.float32]] | None
    """The sum of the units' gradients, one array per buffer, the receiver's own; None without a backward pass."""
    routes: RouteSums | None = None
    """Of a mixture: its experts' loads."""
    marks: tuple[str, ...] = ()
    """Digests of the units' gradients, where they were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fresh:
    """Initial weights, the receiver's own."""

    tensors: Tensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refused:
    """The work cannot be done, here or elsewhere."""

    error: TinsmithError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lost:
    """The worker lost a part of itself, and can do nothing any more; others may do the work."""

    cause: str


Outcome = Sampled | Computed | Fresh | Refused | Lost


def own_arrays(outcome: Outcome) -> Outcome:
    """Return the same with the arrays of long-lived results copied: what lends them can have its memory back.

    One array that is still lent keeps all that came with it, so of what was computed each is copied.
    """
    if isinstance(outcome, Computed):
        found = {
            place: (
                DatumOutput(
                    logprobs=output.logprobs.copy(), routes=None if output.routes is None else output.routes.copy()
                ),
                replace(value, grad=value.grad.copy()),
            )
            for place, (output, value) in outcome.found.items()
        }
        grads = None if outcome.grads is None else [grad.copy() for grad in outcome.grads]
        return replace(outcome, found=found, grads=grads, routes=_own_routes(outcome.routes))
    if isinstance(outcome, Fresh):
        return Fresh(tensors={name: array.copy() for name, array in outcome.tensors.items()})
    return outcome


def _own_routes(routes: RouteSums | None) -> RouteSums | None:
    if routes is None:
        return None
    return replace(routes, loads=routes.loads.copy(), entropies=routes.entropies.copy())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFacts:
    """Facts of a base that a worker holds."""

    fingerprint: str
    config_sha256: str
    certificate: str | None
    """SHA-256; None where the arithmetic promises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """Facts of a worker, on which its results depend."""

    node: str
    threads: int
    pid: int
    source: str
    """SHA-256 of the package's source."""
    arithmetic: str
    bases: Mapping[str, ServedFacts]
    """By served name."""
