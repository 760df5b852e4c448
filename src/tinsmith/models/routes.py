"""Record of a mixture's routes while rows are computed: loads, entropies, and a digest of each row's experts.

Sums are of integers, so that they have one value in whatever order and by whomever they are added.
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
"""An entropy is counted in parts of so many to a nat."""
MOST_LOADS = 256
"""Experts, of all layers together, of which each one's load is told."""


@dataclass(frozen=True, slots=True, eq=False)
class RouteSums:
    """Number of rows of each expert, and the entropy of the routers."""

    rows: int
    loads: NDArray[np.int64]
    """[layers, experts]; a dense layer has zeros."""
    entropies: NDArray[np.int64]
    """[layers], summed over rows, in parts of a nat."""

    def __add__(self, other: RouteSums) -> RouteSums:
        """Of both's rows."""
        return RouteSums(self.rows + other.rows, self.loads + other.loads, self.entropies + other.entropies)


def added(one: RouteSums | None, other: RouteSums | None) -> RouteSums | None:
    """Return both sums, of which either may be none."""
    if one is None or other is None:
        return one or other
    return one + other


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Record of a stage's layers, to be sent."""

    loads: NDArray[np.int64]
    entropies: NDArray[np.int64]
    digests: NDArray[np.int64] | None


@dataclass(slots=True, eq=False)
class RouteRecord:
    """Is told of the routes of every mixture, layer by layer, of rows that are computed together."""

    loads: NDArray[np.int64]
    entropies: NDArray[np.int64]
    kernels: Kernels | None = None
    """With which entropies are computed; None: digests are recorded, and nothing else."""
    _digests: Tensor | None = field(default=None)

    @staticmethod
    def of(decoder: Decoder, *, loads: bool = False) -> RouteRecord | None:
        """A record of all layers up to a decoder's last one, with loads and entropies if asked; None of a dense one."""
        mixture, count = decoder.config.mixture, decoder.first + len(decoder.layers)
        if mixture is None:
            return None
        none = np.zeros((count, mixture.num_experts), np.int64)
        return RouteRecord(none, np.zeros(count, np.int64), decoder.kernels if loads else None)

    def see(self, layer: int, logits: Tensor, routes: Routes) -> None:
        """Take a layer in; `layer` is its number in the model."""
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
        """A number for each row that tells its experts in all layers, (rows,)."""
        if self._digests is None:
            return np.zeros(rows, np.int64)
        return self._digests.cpu().numpy()

    def recorded(self) -> Recorded:
        """All of it, as a stage sends it."""
        found = None if self._digests is None else self._digests.cpu().numpy()
        return Recorded(self.loads, self.entropies, found)

    def absorb(self, other: Recorded) -> None:
        """Take in what an earlier stage recorded of the same rows."""
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
    `e_tokens/LAYER/EXPERT:sum` is an expert's load, where a model has at most MOST_LOADS experts in all.

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
