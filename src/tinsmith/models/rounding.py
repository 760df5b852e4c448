"""Effect of rounding on a model's log-probabilities: the same function, with its sums in another order.

Channels of the residual stream and of the MLPs may be renumbered without changing the function of a decoder. Each sum
over channels then runs in another order, and fp32 rounds it differently. The size of the effect is a property of the
model, mainly of its depth, and the scale for comparing two implementations of the same function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.merge import all_logprobs, probe_sequences
from tinsmith.models.names import EMBEDDING, FINAL_NORM, HEAD
from tinsmith.ops.kernels import Kernels
from tinsmith.types.seeds import derive, random_bits

ORDERS: Final = 3
"""Number of other orders of the sums."""

_READS_HIDDEN: Final = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "gate")
_WRITES_HIDDEN: Final = ("o_proj", "down_proj")
_WRITES_INNER: Final = ("gate_proj", "up_proj")


def rounding_difference(
    config: DecoderConfig, weights: Mapping[str, Tensor], kernels: Kernels, *, seed: int = 0
) -> float:
    """Return the largest difference in nats from another order, over all tokens at every probe position.

    `weights` are fp32 under published names. NaN when a log-probability is not finite.
    """
    sequences = probe_sequences(config, seed=seed)
    plain = all_logprobs(build_decoder(config, weights, kernels), {}, sequences)
    largest = 0.0
    for i in range(ORDERS):
        other = build_decoder(config, renumbered(config, weights, seed=derive(seed, i)), kernels)
        found = float((plain - all_logprobs(other, {}, sequences)).abs().max())
        largest = found if np.isnan(found) else max(largest, found)
    return largest


def renumbered(config: DecoderConfig, weights: Mapping[str, Tensor], *, seed: int) -> dict[str, Tensor]:
    """Return the weights of the same function with hidden and inner channels in an order drawn from `seed`."""
    hidden = _order(config.hidden_size, derive(seed, "hidden"))
    inner = _order(config.intermediate_size, derive(seed, "inner"))
    expert = inner if config.mixture is None else _order(config.mixture.expert_size, derive(seed, "expert"))
    return {
        name: _renumbered(name, tensor, hidden, expert if ".experts." in name else inner)
        for name, tensor in weights.items()
    }


def _renumbered(name: str, tensor: Tensor, hidden: Tensor, inner: Tensor) -> Tensor:
    module, _, kind = name.rpartition(".")
    which = module.rsplit(".", 1)[-1]
    if name in (EMBEDDING, HEAD):
        return tensor[:, hidden].contiguous()
    if name == FINAL_NORM or which.endswith("layernorm"):
        return tensor[hidden].contiguous()
    if which in _WRITES_HIDDEN:
        tensor = tensor[hidden]
    if which in _WRITES_INNER:
        tensor = tensor[inner]
    if kind == "weight" and which in _READS_HIDDEN:
        tensor = tensor[:, hidden]
    if kind == "weight" and which == "down_proj":
        tensor = tensor[:, inner]
    return tensor.contiguous()


def _order(size: int, seed: int) -> Tensor:
    return torch.from_numpy(np.argsort(random_bits(seed, size), kind="stable"))
