"""Division of a base's layers into stages, so that a base which does not fit one worker fits several.

A stage is a run of layers; the first has the embedding too, the last the final norm and the head. A tied head is a copy
of the embedding in every decoder, so it counts in the last stage as in a whole decoder.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from typing import Final

import torch

from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.names import EMBEDDING, FINAL_NORM, HEAD, ROUTER, expected_tensors
from tinsmith.ops.functions import Weight
from tinsmith.ops.linear import Linear
from tinsmith.ops.nf4 import BLOCK, GROUP
from tinsmith.ops.packed import Packed
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive, uniform

_FP32, _BF16 = 4, 2
_STAND_IN_ROWS: Final = 2112
"""Rows of a random embedding or head: more than a certificate's checks use."""


def cut_layers(config: DecoderConfig, shards: int, *, quantised: bool = False) -> tuple[range, ...]:
    """Cut the layers into `shards` stages by the bytes that they hold.

    The largest stage has as few bytes as possible. Of such cuts, the most even one is taken (the smallest sum of
    squares), and of equal ones the first in order.

    Raises:
        ConfigError: there are fewer layers than shards, or less than one shard.
    """
    count = config.num_layers
    if not 1 <= shards <= count:
        raise ConfigError(
            "a base is spread over its layers, one or more in each shard",
            field="shards",
            value=shards,
            allowed=f"1 to {count}, the layers of this base",
        )
    sizes = _layer_bytes(config, quantised=quantised)
    total = [sum(sizes[:n]) for n in range(count + 1)]
    limits = sorted({total[n] - total[m] for n in range(count + 1) for m in range(n)})
    limit = limits[bisect_left(limits, 1, key=lambda most: _needed(sizes, most) <= shards)]
    # best[n]: most even cut of the first n layers into the current number of stages, with the ends of these stages.
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for _ in range(shards):
        ways: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        for m, (squares, ends) in best.items():
            for n in range(m + 1, count + 1):
                size = total[n] - total[m]
                if size <= limit:
                    ways.setdefault(n, []).append((squares + size * size, (*ends, n)))
        best = {n: min(found) for n, found in ways.items()}
    ends = best[count][1]
    return tuple(range(begin, end) for begin, end in zip((0, *ends[:-1]), ends, strict=True))


def _needed(sizes: list[int], most: int) -> int:
    """Return the number of stages of at most `most` bytes; more than the number of layers if one layer is larger."""
    if max(sizes) > most:
        return len(sizes) + 1
    stages, held = 1, 0
    for size in sizes:
        if held + size > most:
            stages, held = stages + 1, 0
        held += size
    return stages


def held_bytes(config: DecoderConfig, layers: range, *, quantised: bool = False) -> int:
    """Return the bytes that the stage with these layers holds."""
    sizes = _layer_bytes(config, quantised=quantised)
    return sum(sizes[layers.start : layers.stop])


def standing_alone(stage: Decoder) -> Decoder:
    """Return a stage as a complete decoder from tokens to logits, for its certificate.

    A missing embedding, norm or head is replaced by a small random one, with a small vocabulary.
    """
    config, device = stage.config, stage.kernels.device
    rows = min(config.vocab_size, _STAND_IN_ROWS)

    def drawn(*shape: int) -> Weight:
        bound = 1.0 / math.sqrt(config.hidden_size)
        values = uniform(derive(0, "stand-in", *shape), shape, bound)
        return Weight(torch.from_numpy(values).to(device))

    embedding, final_norm, head = stage.embedding, stage.final_norm, stage.head
    if isinstance(embedding, Weight) and not len(embedding.value):
        embedding = drawn(rows, config.hidden_size)
    if not head.out_size:
        config = replace(config, vocab_size=rows)
        embedding = Weight(embedding.rows(0, rows) if isinstance(embedding, Packed) else embedding.value[:rows])
        final_norm = Weight(torch.ones(config.hidden_size, device=device))
        head = Linear((drawn(config.hidden_size, rows),), config.hidden_size, widths=(rows,))
    return replace(stage, config=config, embedding=embedding, final_norm=final_norm, head=head, slots=(), packed={})


def _layer_bytes(config: DecoderConfig, *, quantised: bool) -> list[int]:
    """Bytes held for each layer; embedding, final norm and head count with the first and last."""
    sizes = [0] * config.num_layers
    for name, shape in expected_tensors(config).items():
        if name == EMBEDDING:
            wide = math.prod(shape) * (_BF16 if quantised else _FP32)
            sizes[0] += wide
            sizes[-1] += wide if config.tied else 0
        elif name == HEAD:
            sizes[-1] += math.prod(shape) * (_BF16 if quantised else _FP32)
        elif name == FINAL_NORM:
            sizes[-1] += math.prod(shape) * _FP32
        else:
            layer = int(name.split(".")[2])
            nf4 = quantised and len(shape) == 2 and not name.endswith(f"{ROUTER}.weight")
            sizes[layer] += _nf4_bytes(math.prod(shape)) if nf4 else math.prod(shape) * _FP32
    return sizes


def _nf4_bytes(weights: int) -> int:
    blocks = math.ceil(weights / BLOCK)
    return math.ceil(weights / 2) + blocks + _FP32 * (math.ceil(blocks / GROUP) + 1)
