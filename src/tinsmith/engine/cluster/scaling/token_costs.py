"""Cost of a token on a worker and of a step on its server, as a function of the model and its adapter."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.models.config import DecoderConfig
from tinsmith.types.adapters import AdapterKind, AdapterSpec

FP32 = 4
"""Bytes per trained weight, and per element of its gradient."""
NF4 = 0.516
"""Bytes per base weight in NF4: half a byte, plus its share of scales."""
BF16 = 2
"""Bytes per weight of the head beside an NF4 base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Speed and memory format of a worker."""

    name: str
    flops: float
    """Floating-point operations per second in matrix products."""
    bytes_per_second: float
    """Bytes of weights read per second."""
    weight_bytes: float = FP32
    """Bytes per base weight, unless it is NF4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Speed of the server, in fp32 numbers per second."""

    adds: float
    """Elements added per second when two gradients are summed."""
    updates: float
    """Weights that the optimizer steps per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds and bytes of the parts of a step."""

    prompt_token: float
    """Seconds per prompt token."""
    new_token: float
    """Seconds that each token adds to its decoding step."""
    decode_step: float
    """Seconds of a decoding step for any number of tokens: the weights are read once."""
    gradient_row: float
    """Seconds per row, forward and backward."""
    adapter_bytes: int
    """Bytes of the trained weights, and of one gradient of them."""
    join: float
    """Seconds of the server to add one gradient to another."""
    optimizer: float
    """Seconds of the server for an optimizer step."""


def times_of(config: DecoderConfig, spec: AdapterSpec, machine: Machine, server: Server, *, context: int) -> Times:
    """Return the costs of the parts of a step.

    Args:
        config: The model's shape.
        spec: What is trained.
        machine: A worker.
        server: Who joins the gradients and steps the optimizer.
        context: Tokens that a token looks back at, on average.
    """
    trained, weights = trained_weights(config, spec), product_weights(config)
    full = spec.kind is AdapterKind.FULL
    low_rank = 0 if full else trained
    head = config.hidden_size * config.vocab_size
    attention = 4 * config.num_layers * config.q_size * context
    forward = 2 * (weights + low_rank) + attention
    # Backward: as much for the gradient of the rows, and again for that of the trained weights.
    backward = 2 * (weights + low_rank) + 2 * attention + 2 * (weights if full else low_rank)
    held = machine.weight_bytes * weights
    if spec.kind.quantised:
        held = NF4 * (weights - head) + BF16 * head
    return Times(
        prompt_token=(forward - 2 * head) / machine.flops,
        new_token=forward / machine.flops,
        decode_step=(held + FP32 * low_rank) / machine.bytes_per_second,
        gradient_row=(forward + backward) / machine.flops,
        adapter_bytes=FP32 * trained,
        join=trained / server.adds,
        optimizer=trained / server.updates,
    )


def product_weights(config: DecoderConfig) -> int:
    """Number of weights that every token is multiplied with: the layers' and the head's."""
    return (
        config.num_layers * sum(a * b for a, b in _attention(config) + _mlp(config))
        + config.hidden_size * config.vocab_size
    )


def trained_weights(config: DecoderConfig, spec: AdapterSpec) -> int:
    """Number of trained weights, without the biases of a full model."""
    head = (config.hidden_size, config.vocab_size)
    if spec.kind is AdapterKind.FULL:
        norms = (2 * config.num_layers + 1) * config.hidden_size
        norms += 2 * config.num_layers * config.head_dim if config.qk_norm else 0
        embedding = 0 if config.tied else head[0] * head[1]
        return product_weights(config) + norms + embedding
    layer = (_attention(config) if spec.train_attn else []) + (_mlp(config) if spec.train_mlp else [])
    products = config.num_layers * layer + ([head] if spec.train_unembed else [])
    low_rank = spec.rank * sum(a + b for a, b in products)
    return low_rank + (sum(b for _, b in products) if spec.kind.decomposed else 0)


def _attention(config: DecoderConfig) -> list[tuple[int, int]]:
    """Input and output sizes of a layer's attention products."""
    width, q, kv = config.hidden_size, config.q_size, config.kv_size
    return [(width, q), (width, kv), (width, kv), (q, width)]


def _mlp(config: DecoderConfig) -> list[tuple[int, int]]:
    width, hidden = config.hidden_size, config.intermediate_size
    return [(width, hidden), (width, hidden), (hidden, width)]
