"""Certificate check of a mixture: rows with nearly tied experts take the same ones in any batch.

A row is moved until two experts' logits at the edge of its choice agree as nearly as fp32 can say; where rounding
depends on the batch, it shows there first.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tinsmith.engine.checks.checked_ops import Check, by_row, drawn
from tinsmith.engine.parts import Parts
from tinsmith.models.decoder import Decoder, Layer
from tinsmith.ops.experts import ExpertParts
from tinsmith.ops.linear import Run, forward
from tinsmith.ops.mixture import MixtureRun, mixed
from tinsmith.ops.routing import Routes, Routing

_ROWS = 6
_COUNTS = (1, 2, 7, 48, 49, 97)
"""Row counts at which an expert is taken by few rows, or by enough rows for a packed weight."""


def mixtures(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    """Check the routes of rows near a tie and the sum of their experts; yields nothing for a dense model."""
    del parts
    kernels, mixture = decoder.kernels, decoder.config.mixture
    layer = next((layer for layer in decoder.layers if layer.router is not None), None)
    if mixture is None or layer is None:
        return
    routing = Routing(active=mixture.num_active, normalised=mixture.normalised)
    rows = near_ties(decoder, layer, routing)

    def routes_of(x: Tensor) -> Routes:
        assert layer.router is not None
        logits = forward(kernels, x, layer.router, (Run(0, x.shape[0], None),))
        return kernels.route(logits, routing)

    def routes(x: Tensor) -> Tensor:
        found = routes_of(x)
        return torch.cat([found.experts.float(), found.weights], dim=1)

    def mixture_of(x: Tensor) -> Tensor:
        run = MixtureRun(0, x.shape[0], _base_alone)
        return mixed(kernels, x, routes_of(x), layer.mlps, (run,))

    width = decoder.config.hidden_size
    shape = f"{mixture.num_active} of {mixture.num_experts} experts"
    for op, compute in (("routes near a tie", routes), ("mixture near a tie", mixture_of)):
        check = by_row(kernels, op, width, compute, counts=_COUNTS, rows=rows)
        yield Check(check.op, f"{check.shape}, {shape}", check.patterns, check.digest)


def _base_alone(expert: int) -> ExpertParts:
    del expert
    return None, None


def near_ties(decoder: Decoder, layer: Layer, routing: Routing) -> Tensor:
    """Rows whose last chosen and first rejected expert have nearly equal logits, [rows, H]."""
    assert layer.router is not None
    kernels = decoder.kernels
    rows = drawn(kernels, "near ties", _ROWS, decoder.config.hidden_size)
    weight = layer.router.weight(kernels).double().cpu()
    if routing.active == weight.shape[1]:
        return rows
    moved = rows.double().cpu()
    for row in moved:
        for _ in range(3):  # fp64 each time: what is left is the rounding to fp32
            order = torch.sort(row @ weight, descending=True, stable=True).indices
            inside, outside = order[routing.active - 1], order[routing.active]
            apart = weight[:, inside] - weight[:, outside]
            row -= apart * (row @ apart) / (apart @ apart)
    return moved.float().to(kernels.device)
