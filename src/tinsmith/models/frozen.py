"""Frozen adapters from existing weights, for sampling, computing or export, but not for training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.decoder import Decoder
from tinsmith.models.slots import load
from tinsmith.types.adapters import AdapterKind, AdapterSpec

_SUFFIX = ".lora_A.weight"


def targets_among(spec: AdapterSpec, names: Iterable[str]) -> list[str] | None:
    """Return the linear layers of an adapter with tensors of these names; they may be fewer than its spec's groups."""
    if spec.kind is AdapterKind.FULL:
        return None
    return [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]


def frozen_adapter(decoder: Decoder, spec: AdapterSpec, tensors: Mapping[str, Tensor], *, source: str) -> Adapter:
    """Create an adapter from published tensors, without gradients; `source` names them in errors.

    Raises:
        ConfigError: the decoder has no such layers.
        CheckpointError: a tensor is missing, unexpected, of another shape, or not finite.
    """
    adapter = create_adapter(decoder, spec, targets=targets_among(spec, tensors))
    load(adapter.slots, tensors, source=source)
    adapter.changed()
    for weight in adapter.buffers():
        weight.freeze()
    return adapter
