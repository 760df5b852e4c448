"""Tinker's published losses in torch, and a batch on which every branch of them is taken.

Notation: logp the model's log-probability of the target, q the input `logprobs`, adv the advantage.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sdk_cases import datum, tokens_of
from tinker import types
from torch import Tensor

TEXTS = ("the tin is cut and bent", "a seam is soldered twice", "then it holds water")
SHIFTS = (0.5, -0.5, 0.0)
"""Mean of logp - q per datum: GSPO's sequence ratio lies above, below and within its thresholds."""

Inputs = Mapping[str, Tensor]
Config = Mapping[str, float]


def cross_entropy(logp: Tensor, inputs: Inputs, _config: Config) -> Tensor:
    return -(inputs["weights"] * logp).sum()


def importance_sampling(logp: Tensor, inputs: Inputs, _config: Config) -> Tensor:
    return -((logp - inputs["logprobs"]).exp() * inputs["advantages"]).sum()


def ppo(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    return _clipped((logp - inputs["logprobs"]).exp(), inputs["advantages"], config, (0.8, 1.2))


def cispo(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    low, high = _thresholds(config, (0.0, 4.0))
    ratio = (logp - inputs["logprobs"]).exp().clamp(low, high).detach()
    return -(ratio * logp * inputs["advantages"]).sum()


def dro(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    penalty = 0.5 * config["beta"] * (logp - inputs["logprobs"]) ** 2
    return -(logp * inputs["advantages"] - penalty).sum()


def gspo(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    inside = inputs["sequence_ratio_mask"] != 0
    log_ratio = (logp.detach() - inputs["logprobs"])[inside].mean()
    ratio = (log_ratio + logp - logp.detach()).exp()
    return _clipped(ratio, inputs["advantages"], config, (0.8, 1.2))


def _clipped(ratio: Tensor, adv: Tensor, config: Config, default: tuple[float, float]) -> Tensor:
    low, high = _thresholds(config, default)
    return -torch.minimum(ratio * adv, ratio.clamp(low, high) * adv).sum()


def _thresholds(config: Config, default: tuple[float, float]) -> tuple[float, float]:
    return (config.get("clip_low_threshold", default[0]), config.get("clip_high_threshold", default[1]))


FORMULAS: Mapping[str, Callable[[Tensor, Inputs, Config], Tensor]] = {
    "cross_entropy": cross_entropy,
    "importance_sampling": importance_sampling,
    "ppo": ppo,
    "cispo": cispo,
    "dro": dro,
    "gspo": gspo,
}

CASES: tuple[tuple[types.LossFnType, Mapping[str, float]], ...] = (
    ("cross_entropy", {}),
    ("importance_sampling", {}),
    ("ppo", {}),
    ("ppo", {"clip_low_threshold": 0.5, "clip_high_threshold": 1.05}),
    ("cispo", {}),
    ("cispo", {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}),
    ("dro", {"beta": 0.05}),
    ("dro", {"beta": 0.7}),
    ("gspo", {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}),
    ("gspo", {"clip_low_threshold": 0.5, "clip_high_threshold": 3.0}),
)


def loss_batch(loss_fn: str, logprobs: Sequence[NDArray[np.float32]]) -> list[types.Datum]:
    """Datums whose ratios to `logprobs` run from 0.2 to 6, with advantages of both signs.

    The first positions are a prompt as the cookbook sends it: q = 0 and A = 0.
    """
    rng = np.random.default_rng(5)
    batch = []
    for text, logp, shift in zip(TEXTS, logprobs, SHIFTS, strict=True):
        inputs: dict[str, NDArray[np.float32]] = {}
        prompt = np.arange(len(logp)) < 4
        if loss_fn == "cross_entropy":
            inputs["weights"] = rng.normal(size=len(logp)).astype(np.float32)
        else:
            noise = rng.uniform(np.log(0.2), np.log(6.0), len(logp))
            noise += shift - noise[~prompt].mean()
            q = np.where(prompt, 0.0, logp - noise)
            inputs["logprobs"] = q.astype(np.float32)
            advantages = np.where(prompt, 0.0, rng.normal(size=len(logp)))
            inputs["advantages"] = advantages.astype(np.float32)
        if loss_fn == "gspo":
            inputs["sequence_ratio_mask"] = (~prompt).astype(np.float32)
        batch.append(datum(tokens_of(text), inputs))
    return batch


def total(loss_fn: str, config: Config, batch: Sequence[types.Datum], logprobs: Sequence[Tensor]) -> Tensor:
    """The loss of a batch in float64, differentiable in `logprobs`."""
    totals = []
    for one, logp in zip(batch, logprobs, strict=True):
        inputs = {k: v.to_torch().double() for k, v in one.loss_fn_inputs.items()}
        totals.append(FORMULAS[loss_fn](logp.double(), inputs, config))
    return torch.stack(totals).sum()
