"""Tinker's published losses in numpy: the value of a datum's loss, and its gradient by the log-probabilities.

Notation: p the model's log-probability of the target, q the input `logprobs`, A the advantage; all of shape [N].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Inputs = Mapping[str, Array]
Config = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Loss:
    """The sum over a datum's tokens, and what each log-probability changes it by ([N])."""

    value: float
    gradient: Array


def _bounds(config: Config, low: float, high: float) -> tuple[float, float]:
    return config.get("clip_low_threshold", low), config.get("clip_high_threshold", high)


def cross_entropy(p: Array, inputs: Inputs, config: Config) -> Loss:
    """-sum w p."""
    del config
    return Loss(float(-(inputs["weights"] * p).sum()), -inputs["weights"])


def importance_sampling(p: Array, inputs: Inputs, config: Config) -> Loss:
    """-sum exp(p - q) A."""
    del config
    weighted = np.exp(p - inputs["logprobs"]) * inputs["advantages"]
    return Loss(float(-weighted.sum()), -weighted)


def _clipped(ratio: Array, advantages: Array, config: Config) -> Loss:
    low, high = _bounds(config, 0.8, 1.2)
    free, held = ratio * advantages, ratio.clip(low, high) * advantages
    return Loss(float(-np.minimum(free, held).sum()), -np.where(free <= held, free, 0.0))


def ppo(p: Array, inputs: Inputs, config: Config) -> Loss:
    """-sum min(r A, clip(r) A)."""
    return _clipped(np.exp(p - inputs["logprobs"]), inputs["advantages"], config)


def cispo(p: Array, inputs: Inputs, config: Config) -> Loss:
    """-sum clip(r) p A, the ratio without a gradient."""
    low, high = _bounds(config, 0.0, 4.0)
    weight = np.exp(p - inputs["logprobs"]).clip(low, high) * inputs["advantages"]
    return Loss(float(-(weight * p).sum()), -weight)


def dro(p: Array, inputs: Inputs, config: Config) -> Loss:
    """-sum (p A - beta (p - q)^2 / 2)."""
    apart, beta = p - inputs["logprobs"], config["beta"]
    value = -(p * inputs["advantages"] - 0.5 * beta * apart**2).sum()
    return Loss(float(value), -(inputs["advantages"] - beta * apart))


def gspo(p: Array, inputs: Inputs, config: Config) -> Loss:
    """As ppo, with the geometric mean of the masked ratios for every token; its gradient is the token's own."""
    inside = inputs["sequence_ratio_mask"] != 0
    ratio = np.full_like(p, np.exp((p - inputs["logprobs"])[inside].mean()))
    return _clipped(ratio, inputs["advantages"], config)


FORMULAS: Final[Mapping[str, Callable[[Array, Inputs, Config], Loss]]] = MappingProxyType(
    {
        "cross_entropy": cross_entropy,
        "importance_sampling": importance_sampling,
        "ppo": ppo,
        "cispo": cispo,
        "dro": dro,
        "gspo": gspo,
    }
)
