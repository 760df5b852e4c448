"""Fused weights of a layer's experts, as in transformers 5, split into one tensor per matrix.

`experts.gate_up_proj` is (experts, 2 * inner, hidden), gate before up; `experts.down_proj` (experts, hidden, inner).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from safetensors import safe_open
from torch import Tensor

from tinsmith.models.config import DecoderConfig, Mixture
from tinsmith.models.folders.stored import StoredTensor

_EXPERTS: Final = "mlp.experts"
_GATE_UP: Final = "gate_up_proj"
_DOWN: Final = "down_proj"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Location of a published matrix within a tensor of a file."""

    stored: str
    """Name of the tensor in its file."""
    expert: int
    begin: int
    """First row within the expert's."""
    end: int

    def rows(self, handle: safe_open, begin: int = 0, end: int | None = None) -> Tensor:
        """Return rows begin .. end of the matrix (default: all) from an opened file."""
        last = self.end if end is None else self.begin + end
        return handle.get_slice(self.stored)[self.expert, self.begin + begin : last]


def fused_parts(stored: Mapping[str, StoredTensor], config: DecoderConfig) -> dict[str, Part]:
    """Return the published matrices in fused tensors of this decoder's shape, by name; usually none.

    A fused tensor of another shape, or beside a matrix of the same name, is left to the later check of names and
    shapes.
    """
    mixture = config.mixture
    if mixture is None:
        return {}
    parts: dict[str, Part] = {}
    for layer in range(config.num_layers):
        prefix = f"model.layers.{layer}.{_EXPERTS}"
        for name, shape in _fused_shapes(config, mixture).items():
            fused = f"{prefix}.{name}"
            if config.sparse(layer) and fused in stored and stored[fused].shape == shape:
                found = _parts_of(prefix, name, shape)
                parts |= found if found.keys().isdisjoint(stored) else {}
    return parts


def unfused(stored: Mapping[str, StoredTensor], parts: Mapping[str, Part]) -> dict[str, StoredTensor]:
    """Replace fused tensors by their parts."""
    fused = {part.stored for part in parts.values()}
    tensors = {name: tensor for name, tensor in stored.items() if name not in fused}
    for name, part in parts.items():
        whole = stored[part.stored]
        shape = (part.end - part.begin, whole.shape[2])
        tensors[name] = StoredTensor(file=whole.file, shape=shape, dtype=whole.dtype)
    return tensors


def _fused_shapes(config: DecoderConfig, mixture: Mixture) -> dict[str, tuple[int, int, int]]:
    hidden, inner = config.hidden_size, mixture.expert_size
    return {_GATE_UP: (mixture.num_experts, 2 * inner, hidden), _DOWN: (mixture.num_experts, hidden, inner)}


def _parts_of(prefix: str, fused: str, shape: tuple[int, int, int]) -> dict[str, Part]:
    """Yield every expert's matrices within one fused tensor."""
    matrices = (_DOWN,) if fused == _DOWN else ("gate_proj", "up_proj")
    rows = shape[1] // len(matrices)
    return {
        f"{prefix}.{e}.{matrix}.weight": Part(stored=f"{prefix}.{fused}", expert=e, begin=i * rows, end=(i + 1) * rows)
        for e in range(shape[0])
        for i, matrix in enumerate(matrices)
    }
