"""Initial weights of a decoder that is built from scratch, drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from tinsmith.models.config import DecoderConfig
from tinsmith.models.in_turn import InTurn
from tinsmith.models.names import expected_tensors
from tinsmith.types.seeds import derive, uniform

INITIAL_STD = 0.02
"""Standard deviation of initial embeddings and linear weights, as in GPT-2."""


def initial_weights(config: DecoderConfig, seed: int) -> dict[str, torch.Tensor]:
    """Draw initial fp32 weights by Hugging Face name, all at once: see `drawn_weights`."""
    return dict(drawn_weights(config, seed))


def drawn_weights(config: DecoderConfig, seed: int) -> Mapping[str, torch.Tensor]:
    """Return initial fp32 weights by Hugging Face name, each drawn on access, with the same bits on every machine.

    Matrices are uniform with standard deviation 0.02, those that write into the residual stream
    (o_proj, down_proj) smaller by sqrt(2 * num_layers); norms are one, biases zero. Each tensor has
    a seed of its own, derived from its name, so that no draw depends on another tensor's presence.

    Source: the scale of residual projections is GPT-2's, sec. 2.3 of Radford et al. 2019, with a
    uniform in place of a normal law, which needs no transcendental function.
    """
    shapes = expected_tensors(config)

    def draw(name: str) -> torch.Tensor:
        shape = shapes[name]
        if name.endswith("norm.weight"):
            return torch.ones(shape)
        if name.endswith(".bias"):
            return torch.zeros(shape)
        bound = INITIAL_STD * math.sqrt(3.0)
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            bound /= math.sqrt(2.0 * config.num_layers)
        return torch.from_numpy(uniform(derive(seed, "weights", name), shape, bound))

    return InTurn(shapes, draw)
