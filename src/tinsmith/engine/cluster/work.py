"""Work items for workers and their outcomes: plain values, the same whoever computes them."""

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
    """Name of the served base model."""
    quantised: bool
    spec: AdapterSpec | None
    """Shape of the adapter; None for the base alone."""
    sha256: str
    """SHA-256 of the adapter's tensors; "" if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Shipped:
    """Weights that can be sent to workers for as long as this is referenced."""

    id: WeightsId
    tensors: Tensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleWork:
    """A sampling request."""

    id: str
    weights: WeightsId
    request: SampleRequest
    owner: str = ""
    """Key whose request it is, which shares the sampler fairly with others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientWork:
    """Aligned block of gradient units, with or without a backward pass."""

    id: str
    weights: WeightsId
    request: UnitRequest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FreshWork:
    """Initial weights of an adapter, or of a copy of the base that is trained whole."""

    id: str
    name: str
    spec: AdapterSpec


Work = SampleWork | GradientWork | FreshWork


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampled:
    """Samples of a request."""

    result: SampleResult


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Computed:
    """Results of some units."""

    found: Mapping[int, tuple[DatumOutput, LossValue]]
    """Output and loss per datum, by its place in the work; the gradient of the loss is left out."""
    grads: Sequence[NDArray[np.float32]] | None
    """Sum of the units' gradients, one array per buffer, owned by the receiver; None without a backward pass."""
    routes: RouteSums | None = None
    """Loads of a mixture's experts."""
    marks: tuple[str, ...] = ()
    """Digests of the units' gradients, if requested."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fresh:
    """Initial weights, owned by the receiver."""

    tensors: Tensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refused:
    """Error of a work that cannot be done, here or elsewhere."""

    error: TinsmithError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lost:
    """Loss of a part of the worker, which cannot continue; others may do the work."""

    cause: str


Outcome = Sampled | Computed | Fresh | Refused | Lost


def own_arrays(outcome: Outcome) -> Outcome:
    """Copy the arrays of long-lived results, so that the memory they were received in can be freed.

    A single borrowed array keeps everything alive that came with it, so each array of a result is copied.
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
    """SHA-256 of the certificate; None if the arithmetic promises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """Facts of a worker on which its results depend."""

    node: str
    threads: int
    pid: int
    source: str
    """SHA-256 of the package's source."""
    arithmetic: str
    bases: Mapping[str, ServedFacts]
    """Facts of the bases by served name."""
