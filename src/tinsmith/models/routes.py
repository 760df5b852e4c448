"""Record of a mixture's routes during a computation: loads, entropies, and a digest of each row's experts.

All sums are of integers, so that they do not depend on the order of addition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.models.config import Mixture
from tinsmith.models.decoder import Decoder
from tinsmith.ops.exact import log
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.routing import Routes, digests

_PARTS = 1 << 24
"""Units per nat in which entropies are counted."""
MOST_LOADS = 256
"""Most experts, over all layers together, for which each one's load is reported."""


@dataclass(frozen=True, slots=True, eq=False)
class RouteSums:
    """Number of rows of each expert, and the entropy of the routers."""

    rows: int
    loads: NDArray[np.int64]
    """Shape [layers, experts]; a dense layer has zeros."""
    entropies: NDArray[np.int64]
    """Shape [layers], summed over rows, in units of 1/_PARTS nat."""

    def __add__(self, other: RouteSums) -> RouteSums:
        """Add the sums of both."""
        return RouteSums(self.rows + other.rows, self.loads + other.loads, self.entropies + other.entropies)


def added(first: RouteSums | None, second: RouteSums | None) -> RouteSums | None:
    """Add two sums, either of which may be None."""
    if first is None or second is None:
        return first or second
    return first + second


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Record of a stage's layers, for sending."""

    loads: NDArray[np.int64]
    entropies: NDArray[np.int64]
    digests: NDArray[np.int64] | None


@dataclass(slots=True, eq=False)
class RouteRecord:
    """Observer of the routes of every mixture, layer by layer, for rows that are computed together."""

    loads: NDArray[np.int64]
    entropies: NDArray[np.int64]
    kernels: Kernels | None = None
    """Kernels that compute entropies; None to record digests only."""
    _digests: Tensor | None = field(default=None)

    @staticmethod
    def of(decoder: Decoder, *, loads: bool = False) -> RouteRecord | None:
        """Create a record for all layers up to a decoder's last, with loads and entropies on request; None if dense."""
        mixture, count = decoder.config.mixture, decoder.first + len(decoder.layers)
        if mixture is None:
            return None
        none = np.zeros((count, mixture.num_experts), np.int64)
        return RouteRecord(none, np.zeros(count, np.int64), decoder.kernels if loads else None)

    def see(self, layer: int, logits: Tensor, routes: Routes) -> None:
        """Record a layer; `layer` is its number in the model."""
        own = digests(routes.experts, layer)
        self._digests = own if self._digests is None else self._digests + own
        if self.kernels is None:
            return
        counts = torch.bincount(routes.experts.flatten(), minlength=self.loads.shape[1])
        self.loads[layer] += counts.cpu().numpy()
        parts = torch.nan_to_num(self.kernels.row_entropies(logits)).double() * _PARTS
        self.entropies[layer] += int(parts.round().long().sum())

    def sums(self, rows: int) -> RouteSums:
        """Return the recorded sums, for this number of rows."""
        return RouteSums(rows, self.loads, self.entropies)

    def digests(self, rows: int) -> NDArray[np.int64]:
        """Return a digest of each row's experts in all layers, (rows,)."""
        if self._digests is None:
            return np.zeros(rows, np.int64)
        return self._digests.cpu().numpy()

    def recorded(self) -> Recorded:
        """Return the whole record in the form that a stage sends."""
        found = None if self._digests is None else self._digests.cpu().numpy()
        return Recorded(self.loads, self.entropies, found)

    def absorb(self, other: Recorded) -> None:
        """Add an earlier stage's record of the same rows."""
        count = len(other.loads)
        self.loads[:count] += other.loads
        self.entropies[:count] += other.entropies
        if other.digests is not None:
            own = torch.tensor(other.digests)
            held = self._digests
            self._digests = own if held is None else held + own.to(held.device)


def route_metrics(sums: RouteSums, mixture: Mixture) -> dict[str, float]:
    """Return figures of the experts' loads, named as the Tinker SDK documents them, and the routers' mean entropy.

    `e_frac_with_tokens:mean`, `e_frac_oversubscribed:mean`, `e_max_violation:mean` and `:max`, `e_min_violation:mean`
    are over layers; `e_router_entropy:mean` is over layers and rows, as a share of that of equal probabilities; and
    `e_tokens/LAYER/EXPERT:sum` is an expert's load, if a model has at most MOST_LOADS experts in all.

    Source: tinker.types.ForwardBackwardOutput.metrics; a violation is (load - fair load) / fair load.
    """
    sparse = np.flatnonzero(sums.loads.any(axis=1)).tolist()
    if not sparse:
        return {}
    loads = sums.loads[sparse].tolist()
    fair = sums.rows * mixture.num_active / mixture.num_experts
    most = [max(row) / fair - 1.0 for row in loads]
    least = [min(row) / fair - 1.0 for row in loads]
    experts, layers = mixture.num_experts, len(sparse)
    with_tokens = sum(load > 0 for row in loads for load in row)
    above = sum(load > fair for row in loads for load in row)
    nats = int(sums.entropies[sparse].sum()) / _PARTS / (sums.rows * layers)
    metrics = {
        "e_frac_with_tokens:mean": with_tokens / (layers * experts),
        "e_frac_oversubscribed:mean": above / (layers * experts),
        "e_max_violation:mean": sum(most) / layers,
        "e_max_violation:max": max(most),
        "e_min_violation:mean": sum(least) / layers,
        "e_router_entropy:mean": nats / float(log(np.array(float(experts)))) if experts > 1 else 0.0,
    }
    if layers * experts <= MOST_LOADS:
        for n, row in zip(sparse, loads, strict=True):
            for e, load in enumerate(row):
                metrics[f"e_tokens/{n}/{e}:sum"] = float(load)
    return metrics
