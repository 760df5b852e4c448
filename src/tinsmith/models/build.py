"""Construction of a decoder from published tensors: fused, transposed and optionally quantised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder, Layer
from tinsmith.models.in_turn import RowsInTurn, in_blocks
from tinsmith.models.names import EMBEDDING, FINAL_NORM, HEAD, ROUTER, expected_tensors, mlp_names
from tinsmith.models.rotary import inverse_frequencies
from tinsmith.models.slots import Slot
from tinsmith.ops import nf4
from tinsmith.ops.experts import Mlp
from tinsmith.ops.functions import Weight
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.linear import Linear, Nf4Base
from tinsmith.ops.packed import Packed, packed_nf4


def build_decoder(
    config: DecoderConfig,
    weights: Mapping[str, Tensor],
    kernels: Kernels,
    *,
    quantised: bool = False,
    layers: range | None = None,
) -> Decoder:
    """Build a decoder from fp32 copies of `weights` (names of `expected_tensors`), each read in turn.

    If the kernels read packed matrices, those in `weights` stay in their published form, with the same bits. If they
    widen bf16 in registers, a matrix whose values are all bf16 values is held as bf16, with the same bits.

    With `quantised`, every linear weight but the head and the routers is held as NF4 with double quantisation,
    embedding and head as bf16 (QLoRA, arXiv:2305.14314 sec. 3), all rounded here, deterministically; norms, biases and
    routers stay fp32.

    With `layers`, the result is the stage with these layers: only its tensors are read, and its config counts only its
    own layers.
    """
    own = range(config.num_layers) if layers is None else layers
    outer = _Builder(config, weights, kernels, quantised=quantised)
    embedding: Weight | Packed = outer.none(0, config.hidden_size)
    final_norm = outer.none(0)
    head = Linear((outer.none(config.hidden_size, 0),), config.hidden_size, widths=())
    if own.start == 0:
        embedding = outer.embedding()
    if own.stop == config.num_layers:
        head = outer.head(embedding)
        final_norm = outer.vector(FINAL_NORM)
    inner = _Builder(config, weights, kernels, quantised=quantised)
    return Decoder(
        config=replace(config, num_layers=len(own)),
        kernels=kernels,
        embedding=embedding,
        layers=tuple(inner.layer(n) for n in own),
        final_norm=final_norm,
        head=head,
        rope=kernels.rope(inverse_frequencies(config), config.max_positions),
        slots=(*inner.slots, *outer.slots),
        first=own.start,
        packed=inner.published | outer.published,
    )


class _Builder:
    """Collector of slots while the parts of one decoder are created. It holds one matrix or part besides."""

    def __init__(
        self, config: DecoderConfig, weights: Mapping[str, Tensor], kernels: Kernels, *, quantised: bool
    ) -> None:
        self.config = config
        self.shapes = expected_tensors(config)
        self.weights = weights
        self.kernels = kernels
        self.quantised = quantised
        self.wide = torch.bfloat16 if quantised else torch.float32
        """Type of the wide matrices that NF4 does not apply to: embedding and head."""
        self.slots: list[Slot] = []
        self.published: dict[str, Packed] = {}

    def packed(self, *names: str) -> list[Packed]:
        """Return matrices in their published form; none unless all of them can be held so."""
        if self.quantised or not self.kernels.reads_packed or not isinstance(self.weights, RowsInTurn):
            return []
        found = {name: one for name in names if (one := self.weights.packed(name)) is not None}
        if len(found) < len(names):
            return []
        self.published |= found
        return list(found.values())

    def halves(self, name: str) -> list[Packed]:
        """Return a wide matrix beside NF4 in bf16; none if it has another type, or kernels do not widen it."""
        if not (self.quantised and self.kernels.reads_packed):
            return []
        count, width = self.shapes[name]
        rows = torch.empty(count, width, dtype=self.wide)
        for begin, some in in_blocks(self.weights, name, (count, width)):
            rows[begin : begin + len(some)] = some.detach()
        self.published[name] = Packed("BF16", rows.view(torch.int16).numpy(), (count, width))
        return [self.published[name]]

    def tensor(self, name: str) -> Tensor:
        return self.weights[name].detach().to(device=self.kernels.device, dtype=torch.float32)

    def held(self, matrix: Tensor) -> Weight:
        """Return a matrix for computing: in bf16 if that is lossless and the kernels read it."""
        exact = self.kernels.reads_bf16 and matrix.dtype == torch.float32
        if exact and not bool((matrix.view(torch.int32) & 0xFFFF).any()):
            return Weight(matrix.bfloat16())
        return Weight(matrix)

    def none(self, *shape: int) -> Weight:
        """Return a placeholder for a weight that another stage has."""
        return Weight(torch.empty(shape, device=self.kernels.device))

    def vector(self, name: str) -> Weight:
        weight = Weight(self.tensor(name).to(torch.float32, copy=True).contiguous())
        self.slots.append(Slot(name, weight))
        return weight

    def embedding(self) -> Weight | Packed:
        """Return the embedding in its published orientation."""
        for packed in self.packed(EMBEDDING) or self.halves(EMBEDDING):
            return packed
        vocab, hidden = self.shapes[EMBEDDING]
        value = torch.empty(vocab, hidden, dtype=self.wide, device=self.kernels.device)
        for begin, rows in in_blocks(self.weights, EMBEDDING, (vocab, hidden)):
            value[begin : begin + len(rows)] = rows.detach()
        weight = self.held(value)
        self.slots.append(Slot(EMBEDDING, weight))
        return weight

    def head(self, embedding: Weight | Packed) -> Linear:
        """Return a separate head, or a copy of the embedding, which is read for it if another stage has it."""
        hidden, vocab = self.config.hidden_size, self.config.vocab_size
        name = EMBEDDING if self.config.tied else HEAD
        base: tuple[Packed, ...] = (embedding,) if self.config.tied and isinstance(embedding, Packed) else ()
        if base := base or tuple(self.packed(name) or self.halves(name)):
            return Linear(base, in_size=hidden, widths=(vocab,))
        if self.config.tied and isinstance(embedding, Weight) and len(embedding.value):
            weight = Weight(embedding.value.t().contiguous())
        else:
            value = torch.empty(hidden, vocab, dtype=self.wide, device=self.kernels.device)
            for begin, rows in in_blocks(self.weights, name, (vocab, hidden)):
                value[:, begin : begin + len(rows)] = rows.detach().t()
            weight = self.held(value)
        if not self.config.tied:
            self.slots.append(Slot(HEAD, weight, (0, vocab), transposed=True))
        return Linear((weight,), in_size=hidden, widths=(vocab,))

    def router(self, name: str) -> Linear:
        """Return the router in full precision in any case: it is small, and its choices are compared."""
        return self.linear(name, quantised=False)

    def linear(self, *names: str, quantised: bool | None = None) -> Linear:
        """Return matrices that read the same rows, side by side; quantised like the decoder by default."""
        in_size = self.shapes[f"{names[0]}.weight"][1]
        sizes = [self.shapes[f"{name}.weight"][0] for name in names]
        bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        base: tuple[Weight, ...] | tuple[Nf4Base, ...] | tuple[Packed, ...]
        quantised = self.quantised if quantised is None else quantised
        if packed := self.packed(*(f"{name}.weight" for name in names)):
            base = tuple(packed)
        elif quantised and self.kernels.reads_packed and in_size % nf4.BLOCK == 0:
            base = tuple(packed_nf4(self.nf4(name)) for name in names)
        elif quantised:
            base = tuple(Nf4Base.of(self.nf4(name), self.kernels.device) for name in names)
        else:
            beside = torch.empty(in_size, sum(sizes), device=self.kernels.device)
            for i, name in enumerate(names):
                beside[:, bounds[i] : bounds[i + 1]] = self.tensor(f"{name}.weight").t()
            weight = self.held(beside)
            base = (weight,)
            self.slots += [
                Slot(f"{name}.weight", weight, (bounds[i], bounds[i + 1]), transposed=True)
                for i, name in enumerate(names)
            ]
        bias: Weight | None = None
        if f"{names[0]}.bias" in self.weights:
            bias = Weight(torch.cat([self.tensor(f"{name}.bias") for name in names]).contiguous())
            self.slots += [Slot(f"{name}.bias", bias, (bounds[i], bounds[i + 1])) for i, name in enumerate(names)]
        return Linear(base, in_size=in_size, widths=tuple(sizes), bias=bias)

    def nf4(self, name: str) -> nf4.Nf4Tensor:
        return nf4.quantise(self.tensor(f"{name}.weight").cpu().contiguous().numpy(), name=name)

    def layer(self, index: int) -> Layer:
        prefix = f"model.layers.{index}"
        attention = f"{prefix}.self_attn"
        mlps = [f"{prefix}.{name}" for name in mlp_names(self.config, index)]
        normed = self.config.qk_norm or self.config.qk_norm_whole
        return Layer(
            input_norm=self.vector(f"{prefix}.input_layernorm.weight"),
            qkv=self.linear(*(f"{attention}.{n}" for n in ("q_proj", "k_proj", "v_proj"))),
            o=self.linear(f"{attention}.o_proj"),
            post_norm=self.vector(f"{prefix}.post_attention_layernorm.weight"),
            router=self.router(f"{prefix}.{ROUTER}") if self.config.sparse(index) else None,
            mlps=tuple(
                Mlp(self.linear(f"{mlp}.gate_proj", f"{mlp}.up_proj"), self.linear(f"{mlp}.down_proj")) for mlp in mlps
            ),
            q_norm=self.vector(f"{attention}.q_norm.weight") if normed else None,
            k_norm=self.vector(f"{attention}.k_norm.weight") if normed else None,
        )
