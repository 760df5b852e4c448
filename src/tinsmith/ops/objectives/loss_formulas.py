"""Losses of the Tinker API: value and gradient of one datum, from log-probabilities alone.

Every loss is a sum over the datum's tokens and a pure function of that datum, so that neither batch nor order nor
micro-batch can change a bit. This module is independent of models: the gradient is d total / d logprobs, and the caller
runs the backward pass. Computed in float64 with `ops.exact`, summed with one rounding; the gradient is rounded to
float32 once, at the end.

Notation: logp the model's log-probability of the target token (nats), q the sampler's (the input
named `logprobs`), A the advantage, r = exp(logp - q), sg(.) a constant in the gradient. All (N,), or
(N, K) where each of a position's K targets has columns of its own: the sum runs over all of them.

A position with A = 0 has exactly zero loss and gradient even where r overflows or logp is -inf: prompt positions carry
A = 0 and q = 0. The one exception is DRO, whose penalty does not contain A. A non-finite log-probability of the model
propagates to the result where it counts. Source of all formulas: Tinker's documentation, "Loss functions"; the papers
at each function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import Float64Array, exp, fsum, mean
from tinsmith.ops.objectives.loss_config import LossConfig
from tinsmith.ops.objectives.loss_inputs import require_finite
from tinsmith.types.datum import FloatArray
from tinsmith.types.errors import InputError

LossInputs = Mapping[str, NDArray[np.generic]]
"""Inputs of a datum under Tinker's names, each of logprobs' shape; unused ones are ignored."""

_ieee = np.errstate(over="ignore", invalid="ignore")
"""Floating-point errors are silent: overflow gives inf and inf - inf gives NaN, which the caller checks in the
result."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossValue:
    """Value, gradient and metrics of one loss on one datum."""

    total: float
    """Sum of the token losses."""
    grad: FloatArray
    """Gradient d total / d logprobs, of logprobs' shape."""
    metrics: Mapping[str, float]
    """Sums over the datum's tokens, under the names in `Loss.metrics`; those of datums are added."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sampled:
    """Columns of a policy-gradient datum; logp and log_ratio are 0 where A is 0."""

    logp: Float64Array
    log_ratio: Float64Array
    distance: Float64Array
    """logp - q at every position, whether or not A = 0."""
    advantages: Float64Array
    metrics: Mapping[str, float]


def cross_entropy(logprobs: FloatArray, inputs: LossInputs, _config: LossConfig) -> LossValue:
    """Compute the sum of -w logp, with real-valued `weights`, which default to ones."""
    if "weights" in inputs:
        weights = _column(inputs, "weights", logprobs)
    else:
        weights = np.ones(logprobs.shape, dtype=np.float64)
    counts = weights != 0.0
    token_losses = -weights * np.where(counts, logprobs, 0.0)
    metrics = {"tokens": float(np.count_nonzero(counts)), "weights": fsum(weights)}
    return _value(token_losses, -weights, metrics)


@_ieee
def importance_sampling(logprobs: FloatArray, inputs: LossInputs, _config: LossConfig) -> LossValue:
    """Compute the sum of -r A; the gradient is the same."""
    data = _sampled(logprobs, inputs)
    token_losses = -(exp(data.log_ratio) * data.advantages)
    return _value(token_losses, token_losses, data.metrics)


@_ieee
def ppo(logprobs: FloatArray, inputs: LossInputs, config: LossConfig) -> LossValue:
    """Compute the sum of -min(r A, clamp(r, low, high) A). Source: arXiv:1707.06347 sec. 3.

    Gradient -r A, but 0 where A > 0 and r > high, or A < 0 and r < low. At r = low and r = high it
    is -r A: clamp has slope 1 on the closed interval, as in torch up to 2.13. (Where r is outside but
    r A and its bound round to one number, torch gives half; here r itself decides.)
    """
    data = _sampled(logprobs, inputs)
    return _clipped_surrogate(exp(data.log_ratio), data.advantages, config, data.metrics)


@_ieee
def cispo(logprobs: FloatArray, inputs: LossInputs, config: LossConfig) -> LossValue:
    """Compute the sum of -sg(clamp(r, low, high)) logp A. Source: arXiv:2506.13585 (CISPO).

    Gradient -clamp(r, low, high) A: a clipped token keeps its gradient, bounded.
    """
    data = _sampled(logprobs, inputs)
    ratio = exp(data.log_ratio)
    low, high = config.clip_low_threshold, config.clip_high_threshold
    grad = -(np.minimum(np.maximum(ratio, low), high) * data.advantages)
    counts = data.advantages != 0.0
    clipped = _clip_counts(counts & (ratio < low), counts & (ratio > high))
    return _value(grad * data.logp, grad, {**data.metrics, **clipped})


@_ieee
def dro(logprobs: FloatArray, inputs: LossInputs, config: LossConfig) -> LossValue:
    """Compute the sum of -(logp A - beta (logp - q)**2 / 2). Source: arXiv:2405.19107; per token as Tinker's.

    Gradient -A + beta (logp - q). The penalty acts on every position, A = 0 or not: as published,
    a prompt position with q = 0 is pulled towards probability 1.
    """
    data = _sampled(logprobs, inputs)
    penalty = 0.5 * config.beta * (data.distance * data.distance)
    grad = config.beta * data.distance - data.advantages
    return _value(penalty - data.logp * data.advantages, grad, data.metrics)


@_ieee
def gspo(logprobs: FloatArray, inputs: LossInputs, config: LossConfig) -> LossValue:
    """Compute PPO's sum with the ratio of the whole sequence at every token (GSPO-token).

    s = exp(mean of logp - q where `sequence_ratio_mask` is not 0), a constant in the gradient; r_t = s exp(logp_t -
    sg(logp_t)), so r_t = s and the gradient at t is -s A_t, or 0 where PPO's is. As in Tinker, the mask determines s,
    not the summed positions: a position outside it counts by its A. An empty mask leaves s undefined: loss and gradient
    are 0. Source: arXiv:2507.18071 sec. 4.3.
    """
    data = _sampled(logprobs, inputs)
    distance = data.distance[_column(inputs, "sequence_ratio_mask", logprobs) != 0.0]
    log_ratio = mean(distance) if distance.size else 0.0
    advantages = data.advantages if distance.size else np.zeros_like(data.advantages)
    ratio = np.where(advantages != 0.0, exp(np.full_like(advantages, log_ratio)), 1.0)
    return _clipped_surrogate(ratio, advantages, config, _mismatch(distance))


def _clipped_surrogate(
    ratio: Float64Array, advantages: Float64Array, config: LossConfig, metrics: Mapping[str, float]
) -> LossValue:
    low, high = config.clip_low_threshold, config.clip_high_threshold
    surrogate = ratio * advantages
    bound = np.minimum(np.maximum(ratio, low), high) * advantages
    cut_low = (advantages < 0.0) & (ratio < low)
    cut_high = (advantages > 0.0) & (ratio > high)
    grad = np.where(cut_low | cut_high, 0.0, -surrogate)
    return _value(-np.minimum(surrogate, bound), grad, {**metrics, **_clip_counts(cut_low, cut_high)})


def _sampled(logprobs: FloatArray, inputs: LossInputs) -> _Sampled:
    q = _column(inputs, "logprobs", logprobs)
    advantages = _column(inputs, "advantages", logprobs)
    distance = logprobs - q
    counts = advantages != 0.0
    return _Sampled(
        logp=np.where(counts, logprobs, 0.0),
        log_ratio=np.where(counts, distance, 0.0),
        distance=distance,
        advantages=advantages,
        metrics=_mismatch(distance[counts | (q != 0.0)]),
    )


def _mismatch(distance: Float64Array) -> dict[str, float]:
    return {
        "tokens": float(distance.size),
        "unequal_logprob_bits": float(np.count_nonzero(distance)),
        "kl_sample_train_v1": fsum(-distance),
        "kl_sample_train_v2": 0.5 * fsum(distance * distance),
    }


def _clip_counts(low: NDArray[np.bool_], high: NDArray[np.bool_]) -> dict[str, float]:
    return {"clipped_low": float(np.count_nonzero(low)), "clipped_high": float(np.count_nonzero(high))}


@_ieee
def _value(token_losses: Float64Array, grad: Float64Array, metrics: Mapping[str, float]) -> LossValue:
    positive_zeros = grad + 0.0  # -0.0 + 0.0 is +0.0
    return LossValue(total=fsum(token_losses) + 0.0, grad=positive_zeros.astype(np.float32), metrics=metrics)


def _column(inputs: LossInputs, name: str, logprobs: FloatArray) -> Float64Array:
    if name not in inputs:
        raise InputError(
            "this loss needs an input that the datum lacks",
            field=f"loss_fn_inputs.{name}",
            allowed=f"float32, shape {logprobs.shape}",
        )
    column = np.asarray(inputs[name], dtype=np.float64)
    if column.shape != logprobs.shape:
        raise InputError(
            "an input has one number per target",
            field=f"loss_fn_inputs.{name}.shape",
            value=column.shape,
            allowed=f"{logprobs.shape}",
        )
    require_finite(column, f"loss_fn_inputs.{name}")
    return column
