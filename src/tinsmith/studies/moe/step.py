"""Figures of `moe/wander`: changed routes and log-probabilities, and an RL step on policy, whose ratios should be 1.

Rewards are coins, one a text, and advantages a group's: nothing is learned here, but the gradient is an RL step's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.decoder import Decoder
from tinsmith.stats.intervals import wilson
from tinsmith.studies.moe.values import Floats, Seen, Text
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import Datum, IntArray, LossName
from tinsmith.types.seeds import derive

_RESAMPLES: Final = 2000
LOSSES: Final = (LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO)
Gradient = Mapping[str, Tensor]
"""By published name."""
Figures = dict[str, Any]
"""Of a row of `wander.json`."""


def compared(one: Sequence[Seen], other: Sequence[Seen]) -> Figures:
    """Compare two computations of the same texts: tokens that take another expert in some layer, and differences.

    Routes are of all tokens but each text's last, log-probabilities of the completions'. The 95 % interval of the share
    is a bootstrap's over texts, as a changed route changes what later tokens of its text read; where no route changed,
    Wilson's over tokens.
    """
    changed = np.array([int(changed_routes(a, b).sum()) for a, b in zip(one, other, strict=True)], np.int64)
    tokens = np.array([len(each.experts) for each in one], np.int64)
    p, q = (np.concatenate([each.logprobs for each in side]) for side in (one, other))
    moved = np.abs(p.astype(np.float64) - q.astype(np.float64))
    return {
        "changed_routes": int(changed.sum()),
        "tokens": int(tokens.sum()),
        "share": int(changed.sum()) / int(tokens.sum()),
        "interval": _interval(changed, tokens),
        "changed_texts": int(np.count_nonzero(changed)),
        "texts": len(changed),
        "unequal_logprob_bits": float(np.mean(p.view(np.uint32) != q.view(np.uint32))),
        "max_logprob_difference": float(moved.max()),
        "mean_logprob_difference": float(moved.mean()),
    }


def changed_routes(one: Seen, other: Seen) -> NDArray[np.bool_]:
    """Return (tokens,): true where a token takes another expert in some layer."""
    return (one.experts != other.experts).any(axis=(1, 2))


def greedy_parted(together: Sequence[IntArray], alone: Sequence[IntArray]) -> Figures:
    """Say where texts of a batch part from the same prompts' by themselves: the first positions, ascending, from 0."""
    first = [int(np.flatnonzero(a != b)[0]) for a, b in zip(together, alone, strict=True) if not np.array_equal(a, b)]
    return {"texts": len(alone), "parted": len(first), "first": sorted(first)}


def _interval(changed: NDArray[np.int64], tokens: NDArray[np.int64]) -> tuple[float, float]:
    if not changed.any():
        none = wilson(0, int(tokens.sum()))
        return none.low, none.high
    rng = np.random.default_rng(derive(0, "wander", "bootstrap"))
    rows = rng.integers(0, len(changed), (_RESAMPLES, len(changed)))
    shares = changed[rows].sum(axis=1) / tokens[rows].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)


def coin_advantages(count: int, group: int, seed: int) -> list[float]:
    """Draw a reward of 0 or 1 for each text, and take its group's mean away."""
    coins = np.random.default_rng(derive(seed, "wander", "rewards")).integers(0, 2, count)
    groups = coins.astype(np.float64).reshape(-1, group)
    return (groups - groups.mean(axis=1, keepdims=True)).ravel().tolist()


@dataclass(frozen=True, slots=True)
class OnPolicy:
    """An RL step by one of our decoders; `logprobs` are from its own forward pass, so all ratios are 1."""

    decoder: Decoder
    texts: Sequence[Text]
    advantages: Sequence[float]
    logprobs: Sequence[Floats]

    def gradient(
        self, sampled: Sequence[Floats], loss: LossName = LossName.IMPORTANCE_SAMPLING
    ) -> tuple[dict[str, Tensor], Mapping[str, float]]:
        """Return a loss's gradient on all weights, and its metrics; `sampled` are log-probabilities at sampling."""
        session = TrainingSession(create_adapter(self.decoder, AdapterSpec(kind=AdapterKind.FULL)))
        data: list[Datum] = []
        for text, logprobs, advantage in zip(self.texts, sampled, self.advantages, strict=True):
            tokens, before = text.tokens, len(text.prompt) - 1
            whole, advantages = (np.zeros(len(tokens) - 1, np.float32) for _ in range(2))
            whole[before:] = logprobs
            advantages[before:] = advantage
            inputs = {"target_tokens": tokens[1:], "logprobs": whole, "advantages": advantages}
            data.append(Datum(tokens=tokens[:-1], inputs=inputs))
        metrics = session.forward_backward(data, loss).metrics
        return {name: grad.clone() for name, grad in session.optimizer.gradient().items()}, metrics


def step_ratios(
    exact: OnPolicy, still: Gradient, *, sampler: Sequence[Seen], trainer: Sequence[Seen], whole: Gradient
) -> Figures:
    """Measure an RL step on policy: sampled in a batch by decoding, trained on whole texts by the same arithmetic.

    The angle of each loss is between its gradient with these ratios and `still`, with all ratios 1, both by canonical
    arithmetic; that of `whole` is of the gradient of importance sampling as this arithmetic computes all of it.
    """
    moved = [
        (p.logprobs.astype(np.float64) - q.logprobs.astype(np.float64)) for p, q in zip(trainer, sampler, strict=True)
    ]
    ratios = np.exp(np.concatenate(moved))
    # The same ratios, met by canonical's trainer: what it says, less the difference of the two.
    given = [(own.astype(np.float64) - d).astype(np.float32) for own, d in zip(exact.logprobs, moved, strict=True)]
    by_loss = {loss: exact.gradient(given, loss) for loss in LOSSES}
    return {
        "tokens": sum(len(each.experts) for each in sampler),
        "unequal_routes": sum(int(changed_routes(p, q).sum()) for p, q in zip(trainer, sampler, strict=True)),
        "ratios_not_one": float(np.mean(ratios != 1.0)),
        "least_ratio": float(ratios.min()),
        "largest_ratio": float(ratios.max()),
        "clipped": {
            loss.value: (metrics["clipped_low:sum"] + metrics["clipped_high:sum"]) / len(ratios)
            for loss, (_, metrics) in by_loss.items()
            if loss is not LossName.IMPORTANCE_SAMPLING
        },
        "angle_degrees": {loss.value: angle(gradient, still) for loss, (gradient, _) in by_loss.items()},
        "whole_angle_degrees": angle(whole, still),
    }


def angle(one: Gradient, other: Gradient) -> float:
    """Return the angle between two gradients over all weights, in degrees: 0 for equal ones, 90 where one is zero."""
    names = sorted(other)
    if all(bool((one[name] == other[name]).all()) for name in names):
        return 0.0

    def dot(a: Gradient, b: Gradient) -> float:
        return math.fsum(float((a[name].double() * b[name].double()).sum()) for name in names)

    norms = [math.sqrt(dot(each, each)) for each in (one, other)]
    if min(norms) == 0.0:
        return 90.0
    cosine = dot(one, other) / (norms[0] * norms[1])
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
