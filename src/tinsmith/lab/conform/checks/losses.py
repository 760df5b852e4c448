"""Asks for every published loss: its value by its formula, its gradient, its settings, and that it is a sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tinker import types

from tinsmith.lab.conform.subject import (
    ADAM,
    DATA,
    PROMPT,
    TEXTS,
    CannotTellError,
    FloatArray,
    Subject,
    Verdict,
    Word,
    check,
    datum,
    differs,
    farthest,
    graded,
    honoured,
    logprobs_of,
    prompt_of,
    silent,
    text_datum,
    tokens_of,
)
from tinsmith.lab.service.official_client import loss_of

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
    {one.__name__: one for one in (cross_entropy, importance_sampling, ppo, cispo, dro, gspo)}
)

_SHIFTS: Final = (0.5, -0.5, 0.0)
"""Mean of p - q for each text: GSPO's ratio lies above, below and within its thresholds."""
_PROMPT_TOKENS: Final = 4  # The first predictions are a prompt as the cookbook sends it: q = 0 and A = 0.
_RELATIVE: Final = 1e-4
_CANCELLED: Final = 0.02  # Of a usual step, what rounding may leave where two gradients cancel.

LOSSES: Final[Mapping[types.LossFnType, Config]] = {
    "cross_entropy": {},
    "importance_sampling": {},
    "ppo": {},
    "cispo": {},
    "dro": {"beta": 0.3},
    "gspo": {},
}


def loss_batch(loss_fn: str, logprobs: Sequence[FloatArray]) -> list[types.Datum]:
    """Return datums whose ratios run from 0.2 to 6, with advantages of both signs."""
    rng, batch = np.random.default_rng(5), list[types.Datum]()
    for text, p, shift in zip(TEXTS, logprobs, _SHIFTS, strict=True):
        prompt = np.arange(len(p)) < _PROMPT_TOKENS
        if loss_fn == "cross_entropy":
            batch.append(datum(tokens_of(text), {"weights": rng.normal(size=len(p))}))
            continue
        noise = rng.uniform(np.log(0.2), np.log(6.0), len(p))
        noise += shift - noise[~prompt].mean()
        inputs = {
            "logprobs": np.where(prompt, 0.0, p - noise),
            "advantages": np.where(prompt, 0.0, rng.normal(size=len(p))),
        }
        mask = {"sequence_ratio_mask": ~prompt} if loss_fn == "gspo" else {}
        batch.append(datum(tokens_of(text), inputs | mask))
    return batch


def _by_formula(
    loss_fn: str, config: Mapping[str, float], batch: Sequence[types.Datum], p: Sequence[FloatArray]
) -> list[Loss]:
    return [
        FORMULAS[loss_fn](
            logp.astype(np.float64),
            {name: np.asarray(values.to_numpy(), dtype=np.float64) for name, values in one.loss_fn_inputs.items()},
            config,
        )
        for one, logp in zip(batch, p, strict=True)
    ]


def _measure(subject: Subject, loss_fn: types.LossFnType) -> tuple[float | None, list[Loss], float]:
    """Return what a server says of a loss, what the formula says, and by how many nats a step moved.

    The step has the loss, then cross-entropy with weights that are its gradient by the formula: their sum is nothing.
    """
    client, config = subject.trainer(), LOSSES[loss_fn]
    before = subject.forward(client)
    batch = loss_batch(loss_fn, before)
    output = subject.wait(client.forward_backward(batch, loss_fn, config))
    losses = _by_formula(loss_fn, config, batch, logprobs_of(output))
    opposite = [datum(tokens_of(text), {"weights": loss.gradient}) for text, loss in zip(TEXTS, losses, strict=True)]
    subject.wait(client.forward_backward(opposite, "cross_entropy"))
    subject.wait(client.optim_step(ADAM))
    return loss_of(output), losses, farthest(before, subject.forward(client))


def _value(reported: float | None, losses: Sequence[Loss]) -> Verdict:
    if reported is None:
        return differs("no metric loss:sum")
    values = [loss.value for loss in losses]
    total = sum(values)
    apart = abs(reported - total) / abs(total)
    if apart <= _RELATIVE:
        return honoured(f"loss:sum {reported:.5g}, by the formula {total:.5g}")
    tokens = sum(len(loss.gradient) for loss in losses)
    for count, what in ((len(values), "the mean over datums"), (tokens, "the mean over tokens")):
        if abs(reported * count - total) <= _RELATIVE * abs(total):
            return silent(f"it is {what}: loss:sum {reported:.5g}, by the formula {total:.5g}")
    if apart <= 1e-2:
        return differs(f"loss:sum {reported:.5g}, by the formula {total:.5g}: another rounding")
    return silent(f"loss:sum {reported:.5g}, by the formula {total:.5g}")


def _ask_loss(loss_fn: types.LossFnType) -> Callable[[Subject], Verdict]:
    def answer(subject: Subject) -> Verdict:
        """Source: documentation, losses.mdx (cookbook git 85a39123^), and the SDK's gspo page."""
        reported, losses, moved = _measure(subject, loss_fn)
        value = _value(reported, losses)
        left = moved / subject.usual if subject.usual else float("inf")
        if left > _CANCELLED:
            gradient = f"its gradient is not the formula's: {left:.1%} of a step is left"
            return (
                Verdict(value.word, f"{value.how}; {gradient}")
                if value.word == "silent difference"
                else silent(f"{gradient} (value: {value.how})")
            )
        return Verdict(value.word, f"{value.how}; gradient of the formula ({left:.1%} left)")

    return answer


for _name in LOSSES:
    check(f"losses/{_name}", f"Are value and gradient of {_name} those of its formula?")(_ask_loss(_name))


@check("losses/sum over datums", "Do two equal datums have twice the loss and twice the gradient of one?")
def sums(subject: Subject) -> Verdict:
    """Source: documentation, losses.mdx ("the loss is summed over tokens and datums")."""
    client, still = subject.trainer(), ADAM.model_copy(update={"learning_rate": 0.0})
    single, double = (subject.step(client, data, still) for data in ([DATA[0]], [DATA[0], DATA[0]]))
    if single.loss is None or double.loss is None:
        summary = "no metric loss:sum"
    elif abs(double.loss - 2.0 * single.loss) > 1e-3 * abs(double.loss):
        return silent(f"loss:sum is {single.loss:.5g} for one datum and {double.loss:.5g} for two")
    else:
        summary = f"loss:sum {single.loss:.5g} and {double.loss:.5g}"
    norm, norm_of_two = single.grad_norm, double.grad_norm
    if norm is None or norm_of_two is None:
        summary = f"{summary}; the gradient's norm is not told"
        return differs(summary) if single.loss is None else honoured(summary)
    if abs(norm_of_two - 2.0 * norm) > 1e-2 * norm_of_two:
        return silent(f"grad_norm is {norm:.5g} for one datum and {norm_of_two:.5g} for two")
    return honoured(f"{summary}, grad_norm {norm:.4g} and {norm_of_two:.4g}")


@check("losses/missing weights", "Does a datum without weights have weights of one?")
def missing_weights(subject: Subject) -> Verdict:
    """Source: documentation, losses.mdx (weights are optional and 1)."""
    output = subject.wait(subject.trained.forward([datum(tokens_of(TEXTS[0]))], "cross_entropy"))
    (p,) = logprobs_of(output)
    return _value(loss_of(output), [Loss(float(-p.sum(dtype=np.float64)), -np.ones(len(p)))])


def _thresholds(loss_fn: types.LossFnType, config: Mapping[str, float]) -> Callable[[Subject], Verdict]:
    def answer(subject: Subject) -> Verdict:
        """Source: documentation, losses.mdx (clip_low_threshold, clip_high_threshold, beta)."""
        client = subject.trained
        batch = loss_batch(loss_fn, subject.forward(client))
        output = subject.wait(client.forward(batch, loss_fn, config))
        reported, p = loss_of(output), logprobs_of(output)
        found = _value(reported, _by_formula(loss_fn, config, batch, p))
        default = _value(reported, _by_formula(loss_fn, LOSSES[loss_fn], batch, p))
        if found.word == "silent difference" and default.word == "honoured":
            return silent(f"the setting is ignored: {default.how} of the default")
        return found

    return answer


_CHANGED: Final[Mapping[types.LossFnType, Mapping[str, float]]] = {
    "ppo": {"clip_low_threshold": 0.5, "clip_high_threshold": 1.05},
    "cispo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
    "dro": {"beta": 0.9},
    "gspo": {"clip_low_threshold": 0.5, "clip_high_threshold": 1.05},
}

for _name, _config in _CHANGED.items():
    check(f"losses/settings of {_name}", f"Are the settings of {_name} honoured?")(_thresholds(_name, _config))


@check("losses/targets of two dimensions", "Are targets [T, K] scored, each by its own?")
def two_dimensions(subject: Subject) -> Verdict:
    """Source: SDK 0.38, CustomLossInputRank (`target_tokens` [T, K]); cookbook, recipes/sdft."""
    targets = np.array([PROMPT[1:], [32 + (token % 64) for token in PROMPT[1:]]], dtype=np.int64)
    weights = np.array([[0.75, 0.25]] * (len(PROMPT) - 1), dtype=np.float32)

    def scored(targets: np.ndarray, of: np.ndarray) -> types.ForwardBackwardOutput:
        inputs = {
            "target_tokens": types.TensorData.from_numpy(np.ascontiguousarray(targets)),
            "weights": types.TensorData.from_numpy(np.ascontiguousarray(of)),
        }
        one = types.Datum(model_input=prompt_of(PROMPT[:-1]), loss_fn_inputs=inputs)
        return subject.wait(subject.trained.forward([one], "cross_entropy"))

    both = scored(targets.T, weights)
    logprobs = both.loss_fn_outputs[0]["logprobs"]
    values = np.asarray(logprobs.to_numpy()).reshape(logprobs.shape or [-1])
    if values.shape != weights.shape:
        return silent(f"log-probabilities of shape {values.shape} for targets of {weights.shape}")
    alone = [logprobs_of(scored(targets[k], weights[:, k]))[0] for k in range(2)]
    apart = graded(farthest([values[:, 0], values[:, 1]], alone), "both columns, together and alone")
    total = float(-(values.astype(np.float64) * weights).sum())
    loss = _value(loss_of(both), [Loss(total, -weights.ravel().astype(np.float64))])
    return apart if loss.word == "honoured" else loss


@check("losses/custom, on the server", "Does a loss of the user's own run on the server?")
def custom_loss(subject: Subject) -> Verdict:
    """Source: SDK 0.38, ServiceClient.create_custom_loss (alpha)."""
    import torch

    def weighted(logprobs: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = -(logprobs * weights).sum()
        return loss, {"custom/total:sum": loss}

    handle = subject.wait(subject.service.create_custom_loss(weighted, {"logprobs": 1, "weights": 1}))
    if handle.loss_id is None:
        return Verdict(Word.REFUSED, "its /client/config says that it has none; the SDK computes it")
    client = subject.trainer()
    output = subject.wait(client.forward_backward_custom([text_datum(TEXTS[0])], handle))
    reported, built_in = output.metrics.get("custom/total:sum"), subject.forward(client, [DATA[0]])
    if reported is None:
        raise CannotTellError("the loss's own metric is missing")
    return _value(reported, [Loss(float(-built_in[0].sum(dtype=np.float64)), built_in[0].astype(np.float64))])
