"""Training example: input tokens, target tokens, and the inputs of a loss at every position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]

MAX_TARGETS = 1024
"""Most targets of one position."""
MAX_READS = 1 << 22
"""Most log-probabilities in one request with several targets per position."""


class LossName(StrEnum):
    """The losses of the Tinker API that have a published formula; all are sums over tokens."""

    CROSS_ENTROPY = "cross_entropy"
    IMPORTANCE_SAMPLING = "importance_sampling"
    PPO = "ppo"
    CISPO = "cispo"
    DRO = "dro"
    GSPO = "gspo"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Datum:
    """One sequence. `tokens[t]` is the input at position t, `inputs["target_tokens"][t]` its target or its K targets.

    `inputs` has the Tinker names: target_tokens (int, (N,) or (N, K)) always; weights | logprobs, advantages,
    sequence_ratio_mask (float, of the same shape) as the loss requires; a custom loss's inputs under the names of its
    parameters. `engine.validation` checks them.
    """

    tokens: IntArray
    inputs: Mapping[str, NDArray[np.generic]] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def sampled(cls, text: IntArray, logprobs: FloatArray, advantage: float) -> Datum:
        """Create the datum of a text whose end was sampled, with one advantage at every sampled token and 0 before."""
        before = len(text) - 1 - len(logprobs)
        advantages = np.repeat(np.array([0.0, advantage], np.float32), (before, len(logprobs)))
        inputs = {"target_tokens": text[1:], "logprobs": np.pad(logprobs, (before, 0)), "advantages": advantages}
        return cls(tokens=text[:-1], inputs=inputs)

    def __len__(self) -> int:
        return int(self.tokens.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DatumOutput:
    """Model outputs for one datum."""

    logprobs: FloatArray
    """log p(target_tokens[t] | tokens[..t]) in nats, of the shape of target_tokens: (N,) or (N, K)."""
    routes: NDArray[np.int64] | None = None
    """Digest of the experts that each position took in all layers, (N,), for a mixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardBackwardResult:
    """Per-datum outputs in the caller's order, and metrics named `name:reduction` as Tinker's."""

    outputs: tuple[DatumOutput, ...]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamParams:
    """One optimizer step's settings; defaults are the Tinker SDK's."""

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    """Decoupled (AdamW) decay: the weight shrinks by learning_rate * weight_decay."""
    grad_clip_norm: float = 0.0
    """Global L2 norm to which the gradient is scaled down; 0 disables clipping."""
