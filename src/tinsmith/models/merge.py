"""Merge of an adapter into its base, and the difference of the merged model from the trained one.

W + scaling B A, each row times magnitude / norm for DoRA, is added to the base in its stored form, with NF4 decoded.
Rounding the sum to fp32 makes the two models differ a little; the difference is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tinsmith.models.adapter import Adapter, target_names
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import HEAD_PLACE, Decoder
from tinsmith.models.names import EMBEDDING, expected_tensors
from tinsmith.models.steps import LowRanks, TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.linear import Linear, LowRank
from tinsmith.types.datum import IntArray
from tinsmith.types.seeds import derive, random_bits

PROBE_LENGTHS = (1, 2, 17, 33, 64)
"""Lengths of the sequences on which models are compared."""


def merged_config(adapter: Adapter) -> DecoderConfig:
    """Return the config of the decoder for `merged_weights`: an adapted head is no longer tied."""
    config = adapter.decoder.config
    return replace(config, tied=config.tied and HEAD_PLACE not in adapter.low)


def merged_weights(adapter: Adapter) -> dict[str, Tensor]:
    """Return fp32 weights under published names that are equivalent to base and adapter together."""
    decoder = adapter.decoder
    merged = {slot.name: slot.value for slot in decoder.slots}
    if EMBEDDING in decoder.packed:
        merged[EMBEDDING] = decoder.packed[EMBEDDING].widened()
    for place, linear in decoder.linears().items():
        if place == HEAD_PLACE and merged_config(adapter).tied:
            continue
        weight = _merged(decoder.kernels, linear, adapter.low.get(place))
        parts = weight.split(list(linear.widths), dim=1)
        for name, part in zip(target_names(place), parts, strict=True):
            merged[f"{name}.weight"] = part.t().contiguous()
    return {name: merged[name] for name in expected_tensors(merged_config(adapter))}


def base_head(decoder: Decoder) -> Tensor:
    """Return the head's published weight, (V, H); the embedding if it is tied."""
    return decoder.head.weight(decoder.kernels).t().contiguous()


def probe_sequences(config: DecoderConfig, *, seed: int) -> list[IntArray]:
    """Draw ragged sequences of random tokens, the same on every machine."""
    lengths = sorted({min(length, config.max_positions) for length in PROBE_LENGTHS})
    return [
        (random_bits(derive(seed, "probe", length), length) % np.uint64(config.vocab_size)).astype(np.int32)
        for length in lengths
    ]


def all_logprobs(decoder: Decoder, low: LowRanks, sequences: Sequence[IntArray]) -> Tensor:
    """Return log p(every token | prefix) in nats, fp64, [positions of all sequences, V]."""
    forest = Forest.whole([len(sequence) for sequence in sequences])
    ids = torch.from_numpy(np.concatenate(sequences).astype(np.int64)).to(decoder.kernels.device)
    steps = TrainSteps(decoder.kernels, forest, low)
    with torch.no_grad():
        logits = steps.linear(decoder.hidden(steps, ids), decoder.head, HEAD_PLACE)
        return torch.log_softmax(logits.double(), dim=-1)


def max_logprob_difference(adapter: Adapter, other: Decoder | Adapter, *, seed: int = 0) -> float:
    """Return the largest difference in nats, over all tokens at every probe position.

    NaN when a log-probability is not finite: no limit holds for such a model.
    """
    sequences = probe_sequences(adapter.decoder.config, seed=seed)
    decoder, low = (other.decoder, other.low) if isinstance(other, Adapter) else (other, {})
    ours = all_logprobs(adapter.decoder, adapter.low, sequences)
    return float((ours - all_logprobs(decoder, low, sequences)).abs().max())


def _merged(kernels: Kernels, linear: Linear, low: LowRank | None) -> Tensor:
    """Return one linear step's weight with its adapter, [in, out]."""
    weight = linear.weight(kernels).clone()
    if low is None:
        return weight
    for b, (r0, r1), (c0, c1) in zip(low.b, low.rank_slices(), low.columns, strict=True):
        scaled = low.a.value[:, r0:r1] * low.scaling
        kernels.gemm(scaled, b.value, into=weight[:, c0:c1])
    if low.gain is not None:
        kernels.scale_bias(weight, low.gain, None)
    return weight
