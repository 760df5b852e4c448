"""Registry of losses: formula, inputs, settings and metrics by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tinsmith.ops.objectives.loss_config import DEFAULTS, LossConfig
from tinsmith.ops.objectives.loss_formulas import (
    LossInputs,
    LossValue,
    cispo,
    cross_entropy,
    dro,
    gspo,
    importance_sampling,
    ppo,
)
from tinsmith.types.datum import FloatArray, LossName

__all__ = [
    "LOSSES",
    "Loss",
    "LossConfig",
    "LossFunction",
    "LossInputs",
    "LossValue",
    "optional_inputs",
    "required_inputs",
]

LossFunction = Callable[[FloatArray, LossInputs, LossConfig], LossValue]
"""Function (model's logprobs (N,) or (N, K), the datum's inputs, settings) -> value and gradient.

Raises InputError for a missing input, another shape than logprobs', or an input that is not finite.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Loss with its interface. The inputs have Tinker's names and one number per target."""

    value: LossFunction
    required: tuple[str, ...]
    """Inputs every datum must have."""
    optional: tuple[str, ...] = ()
    """Inputs a datum may have."""
    defaults: Mapping[str, float | None]
    """Allowed keys of loss_fn_config and their defaults; None means that the key is required."""
    metrics: tuple[str, ...]
    """Names of the sums in `LossValue.metrics`.

    tokens: positions that count (w, or A or q, is not 0; for GSPO those of its mask).
    weights: sum of w. unequal_logprob_bits: tokens with logp != q.
    kl_sample_train_v1: sum of q - logp. kl_sample_train_v2: sum of (q - logp)**2 / 2.
    clipped_low, clipped_high: tokens whose gradient a threshold zeroed (CISPO: bounded).
    """
    ranks: tuple[int, ...] = (1, 2)
    """Numbers of dimensions its targets may have. Two are allowed for a loss that is a sum over targets, to which one
    with w = 0, or with A = 0, adds nothing, so that padding is harmless. They are not allowed for DRO, whose penalty
    would pull padding towards probability 1, nor for GSPO, whose ratio is that of a sequence, unlike K candidates per
    position."""


_SAMPLED = ("target_tokens", "logprobs", "advantages")
_MISMATCH = ("tokens", "unequal_logprob_bits", "kl_sample_train_v1", "kl_sample_train_v2")
_CLIPPED = (*_MISMATCH, "clipped_low", "clipped_high")

LOSSES: Mapping[LossName, Loss] = MappingProxyType(
    {
        LossName.CROSS_ENTROPY: Loss(
            value=cross_entropy,
            required=("target_tokens",),
            optional=("weights",),
            defaults=DEFAULTS[LossName.CROSS_ENTROPY],
            metrics=("tokens", "weights"),
        ),
        LossName.IMPORTANCE_SAMPLING: Loss(
            value=importance_sampling,
            required=_SAMPLED,
            defaults=DEFAULTS[LossName.IMPORTANCE_SAMPLING],
            metrics=_MISMATCH,
        ),
        LossName.PPO: Loss(value=ppo, required=_SAMPLED, defaults=DEFAULTS[LossName.PPO], metrics=_CLIPPED),
        LossName.CISPO: Loss(value=cispo, required=_SAMPLED, defaults=DEFAULTS[LossName.CISPO], metrics=_CLIPPED),
        LossName.DRO: Loss(
            value=dro, required=_SAMPLED, defaults=DEFAULTS[LossName.DRO], metrics=_MISMATCH, ranks=(1,)
        ),
        LossName.GSPO: Loss(
            value=gspo,
            required=(*_SAMPLED, "sequence_ratio_mask"),
            defaults=DEFAULTS[LossName.GSPO],
            metrics=_CLIPPED,
            ranks=(1,),
        ),
    }
)
"""Losses by name. A loss without a published formula (stable_reinforce) is not included."""


def required_inputs(loss: LossName) -> tuple[str, ...]:
    """Return the names of the required inputs of `loss`."""
    return LOSSES[loss].required


def optional_inputs(loss: LossName) -> tuple[str, ...]:
    """Return the names of the optional inputs of `loss`."""
    return LOSSES[loss].optional
