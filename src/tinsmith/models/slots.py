"""Location of a published tensor within the model's own weights: the weight, its columns, and its orientation.

The model keeps matrices as [in, out] and puts matrices that read the same rows beside one another; checkpoints, Hugging
Face folders and PEFT adapters name them one by one as [out, in]. Slots convert between both, for values, gradients and
optimizer moments alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tinsmith.ops.functions import Weight
from tinsmith.types.errors import CheckpointError


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """Published tensor as a view of one weight."""

    name: str
    weight: Weight
    columns: tuple[int, int] | None = None
    """Columns of a matrix, or elements of a vector; None for all."""
    transposed: bool = False

    def view(self, tensor: Tensor) -> Tensor:
        """Return the slot's part of `tensor` (shaped like the weight), in published orientation."""
        part = tensor if self.columns is None else tensor[..., self.columns[0] : self.columns[1]]
        return part.t() if self.transposed else part

    @property
    def value(self) -> Tensor:
        """Return a contiguous fp32 copy in published orientation."""
        part = self.view(self.weight.value).detach()
        return part.to(torch.float32, copy=True).contiguous()


def values(slots: Iterable[Slot]) -> dict[str, Tensor]:
    """Return published tensors by name."""
    return {slot.name: slot.value for slot in slots}


def views(slots: Iterable[Slot]) -> dict[str, Tensor]:
    """Return published tensors by name, sharing the memory of the weights."""
    return {slot.name: slot.view(slot.weight.value).detach() for slot in slots}


def load(slots: Iterable[Slot], tensors: Mapping[str, Tensor], *, source: str) -> None:
    """Copy published tensors into their weights; write nothing unless all of them fit.

    Raises:
        CheckpointError: a tensor is missing, unexpected, of another shape, or not finite.
    """
    expected = {slot.name: slot for slot in slots}
    for name in sorted(set(expected) | set(tensors)):
        if name not in tensors:
            raise CheckpointError("a tensor is missing", field=f"{source}: {name}", allowed="every tensor of the model")
        if name not in expected:
            raise CheckpointError(
                "this tensor belongs to no weight of the model",
                field=f"{source}: {name}",
                value=tuple(tensors[name].shape),
            )
        shape = tuple(expected[name].view(expected[name].weight.value).shape)
        if tuple(tensors[name].shape) != shape:
            raise CheckpointError(
                "a tensor has another shape",
                field=f"{source}: {name}",
                value=tuple(tensors[name].shape),
                allowed=str(shape),
            )
        if not bool(tensors[name].isfinite().all()):
            raise CheckpointError("a tensor holds NaN or infinity", field=f"{source}: {name}", allowed="finite values")
    for name, slot in expected.items():
        slot.view(slot.weight.value).copy_(tensors[name])
