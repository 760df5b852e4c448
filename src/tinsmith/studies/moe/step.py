"""Figures of `moe/wander`: changed routes and log-probabilities, and an RL step on policy, whose ratios should be 1.

Rewards are coins, one a text, and advantages a group's: nothing is learned here, but the gradient is an RL step's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.decoder import Decoder
from tinsmith.stats.intervals import wilson
from tinsmith.studies.moe.values import Compared, Floats, Greedy, Seen, Side, StepRatios, Text
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import Datum, IntArray, LossName
from tinsmith.types.seeds import derive

_RESAMPLES: Final = 2000
LOSSES: Final = (LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO)
Gradient = Mapping[str, Tensor]
"""By published name."""


def compared(one: Sequence[Seen], other: Sequence[Seen]) -> Compared:
    """Compare two computations of the same texts.

    The interval is a bootstrap's over texts, as a changed route changes what later tokens of its text read; where no
    route changed, Wilson's over tokens.
    """
    changed = np.array([int(changed_routes(a, b).sum()) for a, b in zip(one, other, strict=True)], np.int64)
    tokens = np.array([len(each.experts) for each in one], np.int64)
    p, q = (np.concatenate([each.logprobs for each in side]) for side in (one, other))
    moved = np.abs(p.astype(np.float64) - q.astype(np.float64))
    return Compared(
        changed_routes=int(changed.sum()),
        tokens=int(tokens.sum()),
        share=int(changed.sum()) / int(tokens.sum()),
        interval=_interval(changed, tokens),
        changed_texts=int(np.count_nonzero(changed)),
        texts=len(changed),
        unequal_logprob_bits=float(np.mean(p.view(np.uint32) != q.view(np.uint32))),
        max_logprob_difference=float(moved.max()),
        mean_logprob_difference=float(moved.mean()),
    )


def changed_routes(one: Seen, other: Seen) -> NDArray[np.bool_]:
    """Return (tokens,): true where a token takes another expert in some layer."""
    return (one.experts != other.experts).any(axis=(1, 2))


def greedy_parted(side: Side, batch: int, together: Sequence[IntArray], alone: Sequence[IntArray]) -> Greedy:
    """Say where texts of a batch part from the same prompts' by themselves."""
    first = [int(np.flatnonzero(a != b)[0]) for a, b in zip(together, alone, strict=True) if not np.array_equal(a, b)]
    return Greedy(side=side, batch=batch, texts=len(alone), parted=len(first), first=tuple(sorted(first)))


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
class OwnGradient:
    """The gradient of a loss on all weights of one of our decoders, by its own kernels."""

    decoder: Decoder

    def __call__(
        self, texts: Sequence[Text], sampled: Sequence[Floats], advantages: Sequence[float], loss: LossName
    ) -> tuple[dict[str, Tensor], Mapping[str, float]]:
        """Return it, and the loss's metrics; `sampled` are the log-probabilities at sampling."""
        session = TrainingSession(create_adapter(self.decoder, AdapterSpec(kind=AdapterKind.FULL)))
        data = [
            _datum(text, logprobs, advantage)
            for text, logprobs, advantage in zip(texts, sampled, advantages, strict=True)
        ]
        metrics = session.forward_backward(data, loss).metrics
        return {name: grad.clone() for name, grad in session.optimizer.gradient().items()}, metrics


def step_ratios(
    side: Side,
    batch: int,
    texts: Sequence[Text],
    advantages: Sequence[float],
    *,
    sampler: Sequence[Seen],
    trainer: Sequence[Seen],
    exact: ExactStep,
    whole: Gradient | None,
) -> StepRatios:
    """Measure a step whose sampler and trainer are told; `whole` is that arithmetic's own gradient of it."""
    moved = [
        (p.logprobs.astype(np.float64) - q.logprobs.astype(np.float64)) for p, q in zip(trainer, sampler, strict=True)
    ]
    ratios = np.exp(np.concatenate(moved))
    # The same ratios, met by canonical's trainer: what it says, less the difference of the two.
    given = [(own.astype(np.float64) - d).astype(np.float32) for own, d in zip(exact.logprobs, moved, strict=True)]
    angles: dict[str, float] = {}
    clipped: dict[str, float] = {}
    for loss in LOSSES:
        gradient, metrics = exact.own(texts, given, advantages, loss)
        angles[loss.value] = angle(gradient, exact.gradient)
        if loss is not LossName.IMPORTANCE_SAMPLING:
            share = metrics["clipped_low:sum"] + metrics["clipped_high:sum"]
            clipped[loss.value] = share / len(ratios)
    return StepRatios(
        side=side,
        batch=batch,
        tokens=sum(len(each.experts) for each in sampler),
        unequal_routes=sum(int(changed_routes(p, q).sum()) for p, q in zip(trainer, sampler, strict=True)),
        ratios_not_one=float(np.mean(ratios != 1.0)),
        least_ratio=float(ratios.min()),
        largest_ratio=float(ratios.max()),
        clipped=clipped,
        angle_degrees=angles,
        whole_angle_degrees=None if whole is None else angle(whole, exact.gradient),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactStep:
    """The step by canonical arithmetic, whose ratios are 1."""

    own: OwnGradient
    logprobs: Sequence[Floats]
    gradient: Gradient

    @staticmethod
    def of(decoder: Decoder, texts: Sequence[Text], seen: Sequence[Seen], advantages: Sequence[float]) -> ExactStep:
        """Compute it; `seen` is canonical's own forward pass."""
        own, logprobs = OwnGradient(decoder), [each.logprobs for each in seen]
        gradient, _ = own(texts, logprobs, advantages, LossName.IMPORTANCE_SAMPLING)
        return ExactStep(own=own, logprobs=logprobs, gradient=gradient)


def angle(one: Gradient, other: Gradient) -> float:
    """Return the angle between two gradients over all weights, in degrees: 0 for equal ones, 90 where one is zero."""
    names = sorted(other)
    if all(bool((one[name] == other[name]).all()) for name in names):
        return 0.0
    norms = [math.sqrt(math.fsum(_dot(each[name], each[name]) for name in names)) for each in (one, other)]
    if min(norms) == 0.0:
        return 90.0
    product = math.fsum(_dot(one[name], other[name]) for name in names)
    cosine = product / (norms[0] * norms[1])
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a.double() * b.double()).sum())


def _datum(text: Text, logprobs: Floats, advantage: float) -> Datum:
    before = len(text.prompt) - 1
    tokens = text.tokens

    def padded(values: Floats | float) -> Floats:
        whole = np.zeros(len(tokens) - 1, np.float32)
        whole[before:] = values
        return whole

    return Datum(
        tokens=tokens[:-1],
        inputs={"target_tokens": tokens[1:], "logprobs": padded(logprobs), "advantages": padded(advantage)},
    )
