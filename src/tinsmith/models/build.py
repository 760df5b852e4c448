"""Builds a decoder from published tensors: fuses, transposes and, if asked, quantises them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder, Layer
from tinsmith.models.names import EMBEDDING, FINAL_NORM, HEAD
from tinsmith.models.rotary import inverse_frequencies
from tinsmith.models.slots import Slot
from tinsmith.ops import nf4
from tinsmith.ops.functions import Weight
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.linear import Linear, Nf4Base


def build_decoder(
    config: DecoderConfig,
    weights: Mapping[str, Tensor],
    kernels: Kernels,
    *,
    quantised: bool = False,
    layers: range | None = None,
) -> Decoder:
    """Make a decoder of fp32 copies of `weights` (names of `expected_tensors`), each read when it is its turn.

    With `quantised`, every linear weight but the head is held as NF4 with double quantisation, embedding and head as
    bf16 (QLoRA, arXiv:2305.14314 sec. 3), all rounded here, deterministically; norms and biases stay fp32.

    With `layers`, the stage that has these: only what belongs to it is read, and its config counts only its own.
    """
    own = range(config.num_layers) if layers is None else layers
    outer = _Builder(weights, kernels, quantised=quantised)  # the widest, while little is held
    embedding, head, final_norm = outer.none(0, config.hidden_size), None, outer.none(0)
    if own.start == 0:
        embedding = outer.vector(EMBEDDING, dtype=outer.wide)
    if own.stop == config.num_layers:
        head = outer.tied_head(embedding) if config.tied else outer.head()
        final_norm = outer.vector(FINAL_NORM)
    if head is None:
        head = Linear((outer.none(config.hidden_size, 0),), config.hidden_size, widths=())
    inner = _Builder(weights, kernels, quantised=quantised)
    return Decoder(
        config=replace(config, num_layers=len(own)),
        kernels=kernels,
        embedding=embedding,
        layers=tuple(inner.layer(config, n) for n in own),
        final_norm=final_norm,
        head=head,
        rope=kernels.rope(inverse_frequencies(config), config.max_positions),
        slots=(*inner.slots, *outer.slots),
        first=own.start,
    )


class _Builder:
    """Collects slots while the parts of one decoder are made."""

    def __init__(self, weights: Mapping[str, Tensor], kernels: Kernels, *, quantised: bool) -> None:
        self.weights = weights
        self.kernels = kernels
        self.quantised = quantised
        self.wide = torch.bfloat16 if quantised else torch.float32
        """Of embedding and head, the wide matrices that NF4 leaves alone."""
        self.slots: list[Slot] = []

    def tensor(self, name: str) -> Tensor:
        return self.weights[name].detach().to(device=self.kernels.device, dtype=torch.float32)

    def vector(self, name: str, *, dtype: torch.dtype = torch.float32) -> Weight:
        """A weight kept in its published orientation."""
        weight = Weight(self.tensor(name).to(dtype, copy=True).contiguous())
        self.slots.append(Slot(name, weight))
        return weight

    def none(self, *shape: int) -> Weight:
        """In the place of a weight that another stage has."""
        return Weight(torch.empty(shape, device=self.kernels.device))

    def head(self) -> Linear:
        return self.linear((HEAD.removesuffix(".weight"),), quantise=False)

    def tied_head(self, embedding: Weight) -> Linear:
        """A transposed copy of the embedding, which is read for it where another stage has it."""
        held = embedding.value
        table = held if len(held) else self.tensor(EMBEDDING).to(self.wide)
        value = table.t().contiguous()
        return Linear((Weight(value),), in_size=value.shape[0], widths=(value.shape[1],))

    def linear(self, names: tuple[str, ...], *, quantise: bool) -> Linear:
        """Matrices that read the same rows, side by side."""
        parts = [self.tensor(f"{name}.weight") for name in names]
        in_size, sizes = parts[0].shape[1], [part.shape[0] for part in parts]
        bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        base: tuple[Weight, ...] | tuple[Nf4Base, ...]
        if quantise and self.quantised:
            base = tuple(self.nf4(part, name) for part, name in zip(parts, names, strict=True))
        else:
            beside = torch.cat([part.t() for part in parts], dim=1)
            weight = Weight(beside.contiguous().to(torch.float32 if quantise else self.wide))
            base = (weight,)
            self.slots += [
                Slot(f"{name}.weight", weight, (bounds[i], bounds[i + 1]), transposed=True)
                for i, name in enumerate(names)
            ]
        bias: Weight | None = None
        if f"{names[0]}.bias" in self.weights:
            bias = Weight(torch.cat([self.tensor(f"{name}.bias") for name in names]).contiguous())
            self.slots += [
                Slot(f"{name}.bias", bias, (bounds[i], bounds[i + 1]))
                for i, name in enumerate(names)
            ]
        return Linear(base, in_size=in_size, widths=tuple(sizes), bias=bias)

    def nf4(self, weight: Tensor, name: str) -> Nf4Base:
        packed = nf4.to_parts(nf4.quantise(weight.cpu().contiguous().numpy(), name=name))
        held = {
            key: torch.from_numpy(part.copy()).to(self.kernels.device)
            for key, part in packed.items()
        }
        return Nf4Base(
            codes=held["codes"],
            absmax_codes=held["absmax_codes"],
            absmax_scales=held["absmax_scales"],
            offset=held["offset"],
            out_size=weight.shape[0],
            in_size=weight.shape[1],
        )

    def layer(self, config: DecoderConfig, index: int) -> Layer:
        prefix = f"model.layers.{index}"
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        return Layer(
            input_norm=self.vector(f"{prefix}.input_layernorm.weight"),
            qkv=self.linear(
                tuple(f"{attention}.{n}" for n in ("q_proj", "k_proj", "v_proj")), quantise=True
            ),
            o=self.linear((f"{attention}.o_proj",), quantise=True),
            post_norm=self.vector(f"{prefix}.post_attention_layernorm.weight"),
            gate_up=self.linear((f"{mlp}.gate_proj", f"{mlp}.up_proj"), quantise=True),
            down=self.linear((f"{mlp}.down_proj",), quantise=True),
            q_norm=self.vector(f"{attention}.q_norm.weight") if config.qk_norm else None,
            k_norm=self.vector(f"{attention}.k_norm.weight") if config.qk_norm else None,
        )
