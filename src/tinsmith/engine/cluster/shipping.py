"""Adapters in transit to workers: identity by content, and tensors."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.engine.cluster.hollow import HollowDecoder
from tinsmith.engine.cluster.work import Shipped, WeightsId
from tinsmith.engine.sequences import Policy
from tinsmith.models.adapter import Adapter
from tinsmith.models.slots import values
from tinsmith.types.fingerprints import tensors_sha256


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RemotePolicy(Policy):
    """Policy that workers compute."""

    weights: WeightsId
    shipped: Shipped | None
    """Adapter weights; None for the base alone, which every worker has."""


def shipped(adapter: Adapter) -> Shipped:
    """Return an adapter's current weights for sending."""
    decoder = adapter.decoder
    assert isinstance(decoder, HollowDecoder), "made by the cluster's engine"
    tensors = {name: tensor.cpu().numpy() for name, tensor in values(adapter.slots).items()}
    weights = WeightsId(
        name=decoder.served, quantised=decoder.quantised, spec=adapter.spec, sha256=tensors_sha256(tensors)
    )
    return Shipped(id=weights, tensors=tensors)


def remote_policy(adapter: Adapter) -> RemotePolicy:
    """Policy through an adapter's weights, which later training must not change."""
    sent = shipped(adapter)
    return RemotePolicy(adapter.decoder, adapter.low, weights=sent.id, shipped=sent)


def base_policy(decoder: HollowDecoder) -> RemotePolicy:
    """Policy that samples from a base alone."""
    base = WeightsId(name=decoder.served, quantised=decoder.quantised, spec=None, sha256="")
    return RemotePolicy(decoder, {}, weights=base, shipped=None)
