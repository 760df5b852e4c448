"""Losses against hand-computed numbers, torch's autograd of the published code, and mutants."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from loss_cases import (
    ALL,
    LINEAR_IN_A,
    Inputs,
    assert_is_published_code,
    check_loss,
    config_of,
    datum,
    floats,
    one_token,
)

from tinsmith.ops.exact import exp, fsum
from tinsmith.ops.objectives.aggregation import Aggregation, token_weights
from tinsmith.ops.objectives.kl import k1, k2, k3
from tinsmith.ops.objectives.losses import LOSSES, LossConfig, LossFunction, LossValue
from tinsmith.types.datum import LossName
from tinsmith.types.errors import ConfigError, InputError

# Hand-computed


@pytest.mark.parametrize(
    ("loss", "a", "total", "grad"),
    [
        (LossName.IMPORTANCE_SAMPLING, 1.0, -1.349859, -1.349859),
        (LossName.IMPORTANCE_SAMPLING, -2.0, 2.699718, 2.699718),
        (LossName.PPO, 1.0, -1.2, 0.0),
        (LossName.PPO, -1.0, 1.349859, 1.349859),
        (LossName.GSPO, 1.0, -1.2, 0.0),
        (LossName.GSPO, -1.0, 1.349859, 1.349859),
        (LossName.CISPO, 1.0, 1.349859, -1.349859),  # -r logp A with logp = -1
        (LossName.DRO, 1.0, 1.00225, -0.985),  # -(logp A - .025 * .09), -A + .05 * .3
    ],
)
def test_one_token_with_a_log_ratio_of_three_tenths(loss: LossName, a: float, total: float, grad: float) -> None:
    value = one_token(LOSSES[loss].value, loss, difference=0.3, a=a)
    assert value.total == pytest.approx(total, abs=1e-6)
    assert value.grad == pytest.approx([grad], abs=1e-6)


def test_ppo_clips_a_small_ratio_only_for_negative_advantages() -> None:
    ppo = LOSSES[LossName.PPO].value
    assert one_token(ppo, LossName.PPO, difference=-0.3, a=-1.0).total == pytest.approx(0.8)
    assert one_token(ppo, LossName.PPO, difference=-0.3, a=-1.0).grad.tolist() == [0.0]
    assert one_token(ppo, LossName.PPO, difference=-0.3, a=1.0).total == pytest.approx(-0.740818)


def test_cispo_bounds_the_coefficient_and_keeps_the_gradient() -> None:
    value = one_token(LOSSES[LossName.CISPO].value, LossName.CISPO, difference=2.0, a=0.5)
    assert value.grad.tolist() == [-2.0]
    assert value.total == 2.0
    assert value.metrics["clipped_high"] == 1.0


def test_cross_entropy_takes_real_weights_and_ones_without_them() -> None:
    function = LOSSES[LossName.CROSS_ENTROPY].value
    logprobs = floats(-1.0, -2.0, -4.0)
    weighted = function(logprobs, {"weights": floats(0.0, -0.5, 0.25)}, LossConfig())
    assert weighted.total == 0.0
    assert weighted.grad.tolist() == [0.0, 0.5, -0.25]
    assert weighted.metrics == {"tokens": 2.0, "weights": -0.25}
    assert function(logprobs, {}, LossConfig()).total == 7.0
    assert function(logprobs, {}, LossConfig()).grad.tolist() == [-1.0, -1.0, -1.0]


def test_gspo_gives_every_token_the_geometric_mean_of_the_masked_ratios() -> None:
    inputs = {
        "logprobs": floats(-1.0, -1.0, -1.0, 0.0),
        "advantages": floats(1.0, -2.0, 0.5, 0.0),
        "sequence_ratio_mask": floats(1.0, 1.0, 0.0, 0.0),
    }
    logprobs = floats(-0.875, -1.125 + 0.25, -9.0, -50.0)  # the mean over the first two is 1/8
    value = LOSSES[LossName.GSPO].value(logprobs, inputs, config_of(LossName.GSPO))
    s = math.exp(0.125)
    assert value.total == pytest.approx(0.5 * s)
    assert value.grad == pytest.approx([-s, 2.0 * s, -0.5 * s, 0.0])
    assert value.metrics["tokens"] == 2.0


def test_metrics_count_tokens_clips_and_mismatch() -> None:
    inputs = {"logprobs": floats(0.0, -1.0, -1.0, -1.0, -1.0), "advantages": floats(0.0, 1.0, -1.0, 2.0, 0.0)}
    logprobs = floats(-30.0, -0.5, -1.5, -1.0, -2.0)
    value = LOSSES[LossName.PPO].value(logprobs, inputs, config_of(LossName.PPO))
    assert value.metrics == {
        "tokens": 4.0,
        "unequal_logprob_bits": 3.0,
        "kl_sample_train_v1": 1.0,
        "kl_sample_train_v2": 0.75,
        "clipped_low": 1.0,
        "clipped_high": 1.0,
    }


@pytest.mark.parametrize(("low", "high", "counts"), [(1.1, 1.3, (1.0, 1.0)), (0.5, 0.9, (0.0, 2.0))])
def test_cispo_counts_bounded_tokens_only_where_there_is_an_advantage(
    low: float, high: float, counts: tuple[float, float]
) -> None:
    inputs = {"logprobs": floats(0.0, -1.0, -1.0), "advantages": floats(0.0, 1.0, -1.0)}
    config = config_of(LossName.CISPO, clip_low_threshold=low, clip_high_threshold=high)
    metrics = LOSSES[LossName.CISPO].value(floats(-9.0, -1.0, -0.5), inputs, config).metrics
    assert (metrics["clipped_low"], metrics["clipped_high"]) == counts


# Against torch


@pytest.mark.parametrize("loss", ALL)
def test_value_and_gradient_are_those_of_the_published_code(loss: LossName) -> None:
    check_loss(loss, LOSSES[loss].value)


@pytest.mark.parametrize("loss", [LossName.PPO, LossName.GSPO, LossName.CISPO])
@pytest.mark.parametrize(("low", "high"), [(1.0, 1.2), (0.8, 1.0), (1.0, 1.0), (1.1, 1.3)])
@pytest.mark.parametrize("a", [-1.5, 1.5])
def test_a_ratio_of_one_at_a_threshold_keeps_its_gradient(loss: LossName, low: float, high: float, a: float) -> None:
    inputs = {"logprobs": floats(-1.0, -0.5), "advantages": floats(a, a), "sequence_ratio_mask": floats(1.0, 1.0)}
    config = config_of(loss, clip_low_threshold=low, clip_high_threshold=high)
    assert_is_published_code(loss, LOSSES[loss].value, floats(-1.0, -0.5), inputs, config)


# Mutants: the checkers above must tell each of them from the real thing


def mean_instead_of_sum(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    value = LOSSES[LossName.IMPORTANCE_SAMPLING].value(logprobs, inputs, config)
    size = np.float32(logprobs.size)
    return dataclasses.replace(value, total=value.total / size, grad=value.grad / size)


def sign_flipped(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    value = LOSSES[LossName.CROSS_ENTROPY].value(logprobs, inputs, config)
    return dataclasses.replace(value, total=-value.total, grad=-value.grad)


def clip_without_min(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    ratio = exp(logprobs - inputs["logprobs"].astype(np.float64))
    inside = (ratio >= config.clip_low_threshold) & (ratio <= config.clip_high_threshold)
    clipped = np.clip(ratio, config.clip_low_threshold, config.clip_high_threshold)
    grad = np.where(inside, -ratio * inputs["advantages"], 0.0).astype(np.float32)
    return LossValue(total=fsum(-clipped * inputs["advantages"]), grad=grad, metrics={})


def ratio_inverted(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    swapped = {**inputs, "logprobs": logprobs}
    return LOSSES[LossName.PPO].value(inputs["logprobs"], swapped, config)


def clipped_tokens_keep_their_gradient(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    value = LOSSES[LossName.PPO].value(logprobs, inputs, config)
    free = LOSSES[LossName.IMPORTANCE_SAMPLING].value(logprobs, inputs, config)
    return dataclasses.replace(value, grad=free.grad)


def clipped_tokens_lose_their_gradient(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    tight = dataclasses.replace(config, clip_low_threshold=0.8, clip_high_threshold=1.2)
    value = LOSSES[LossName.CISPO].value(logprobs, inputs, config)
    return dataclasses.replace(value, grad=LOSSES[LossName.PPO].value(logprobs, inputs, tight).grad)


def penalty_without_half(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    doubled = dataclasses.replace(config, beta=2.0 * config.beta)
    return LOSSES[LossName.DRO].value(logprobs, inputs, doubled)


def ratio_over_prompt_too(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    everywhere = {**inputs, "sequence_ratio_mask": np.ones_like(logprobs)}
    return LOSSES[LossName.GSPO].value(logprobs, everywhere, config)


def ratio_of_each_token(logprobs: np.ndarray, inputs: Inputs, config: LossConfig) -> LossValue:
    return LOSSES[LossName.PPO].value(logprobs, inputs, config)


LOSS_MUTANTS = [
    (LossName.CROSS_ENTROPY, sign_flipped),
    (LossName.IMPORTANCE_SAMPLING, mean_instead_of_sum),
    (LossName.PPO, clip_without_min),
    (LossName.PPO, ratio_inverted),
    (LossName.PPO, clipped_tokens_keep_their_gradient),
    (LossName.CISPO, clipped_tokens_lose_their_gradient),
    (LossName.DRO, penalty_without_half),
    (LossName.GSPO, ratio_over_prompt_too),
    (LossName.GSPO, ratio_of_each_token),
]


@pytest.mark.parametrize(("loss", "mutant"), LOSS_MUTANTS)
def test_a_mutated_loss_is_found(loss: LossName, mutant: LossFunction) -> None:
    with pytest.raises(AssertionError):
        check_loss(loss, mutant)


def test_kl_estimators_by_hand() -> None:
    d = np.atleast_1d(0.1)
    assert k1(d)[0] == 0.1
    assert k2(d)[0] == pytest.approx(0.005, rel=1e-15)
    assert k3(d)[0] == pytest.approx(0.00483742, abs=5e-9)
    assert k3(np.atleast_1d(1e-9))[0] == pytest.approx(5e-19, rel=1e-8)
    assert [estimator(np.atleast_1d(0.0))[0] for estimator in (k1, k2, k3)] == [0.0, 0.0, 0.0]


def enumerated() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three tokens: the logits of pi, log pi and log ref."""
    theta = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([0.1, 0.4, -0.5], dtype=torch.float64).log_softmax(0)
    return theta, theta.log_softmax(0), ref


def test_k1_and_k3_have_the_kl_as_mean_and_k2_has_not() -> None:
    _, logp, ref = enumerated()
    pi, d = logp.exp().detach().numpy(), (logp - ref).detach().numpy()
    kl = float(np.dot(pi, d))
    assert float(np.dot(pi, k1(d))) == pytest.approx(kl, rel=1e-14)
    assert float(np.dot(pi, k3(d))) == pytest.approx(kl, rel=1e-14)
    assert abs(float(np.dot(pi, k2(d))) - kl) > 1e-2


def test_as_losses_the_estimators_have_the_expected_gradients_their_docstrings_say() -> None:
    theta, logp, ref = enumerated()

    def gradient(loss: torch.Tensor) -> np.ndarray:
        return torch.autograd.grad(loss, theta, retain_graph=True)[0].numpy()

    pi = logp.exp()
    d = logp - ref
    fixed = pi.detach()
    reverse = gradient((pi * d).sum())
    forward = gradient((ref.exp() * (ref - logp)).sum())
    np.testing.assert_allclose(gradient((fixed * d).sum()), 0.0, atol=1e-15)
    np.testing.assert_allclose(gradient((fixed * d**2 / 2).sum()), reverse, rtol=1e-12)
    np.testing.assert_allclose(gradient((fixed * (torch.exp(-d) - 1 + d)).sum()), forward)
    in_reward = (pi * torch.tensor(k1(d.detach().numpy()))).sum()
    np.testing.assert_allclose(gradient(in_reward), reverse, rtol=1e-12)


def test_defaults_are_tinker_s() -> None:
    ppo, cispo = config_of(LossName.PPO), config_of(LossName.CISPO)
    assert (ppo.clip_low_threshold, ppo.clip_high_threshold) == (0.8, 1.2)
    assert (cispo.clip_low_threshold, cispo.clip_high_threshold) == (0.0, 4.0)
    assert config_of(LossName.GSPO) == ppo


def test_given_settings_replace_the_defaults_one_by_one() -> None:
    config = LossConfig.from_mapping(LossName.PPO, {"clip_high_threshold": 2})
    assert config == LossConfig(clip_low_threshold=0.8, clip_high_threshold=2.0)


@pytest.mark.parametrize("loss", ALL)
def test_an_unknown_setting_is_named_with_the_known_ones(loss: LossName) -> None:
    with pytest.raises(ConfigError, match=r"loss_fn_config\.clip_hi = 1\.2") as caught:
        LossConfig.from_mapping(loss, {"clip_hi": 1.2})
    message = str(caught.value)
    assert all(key in message for key in LOSSES[loss].defaults)
    assert loss in message


@pytest.mark.parametrize(
    ("loss", "settings", "field"),
    [
        (LossName.PPO, {"clip_low_threshold": -0.1}, "clip_low_threshold"),
        (LossName.PPO, {"clip_low_threshold": math.nan}, "clip_low_threshold"),
        (LossName.PPO, {"clip_low_threshold": math.inf}, "clip_low_threshold"),
        (LossName.PPO, {"clip_high_threshold": 0.5}, "clip_high_threshold"),
        (LossName.CISPO, {"clip_high_threshold": math.nan}, "clip_high_threshold"),
        (LossName.GSPO, {"clip_high_threshold": "1.2"}, "clip_high_threshold"),
        (LossName.PPO, {"clip_high_threshold": True}, "clip_high_threshold"),
        (LossName.DRO, {"beta": -1.0}, "beta"),
        (LossName.DRO, {"beta": math.inf}, "beta"),
        (LossName.DRO, {"beta": 10**400}, "beta"),
        (LossName.DRO, {"beta": None}, "beta"),
        (LossName.DRO, {}, "beta"),
    ],
)
def test_an_impossible_setting_is_named(loss: LossName, settings: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError, match=rf"loss_fn_config\.{field} = "):
        LossConfig.from_mapping(loss, settings)


LOSSES_DT = (np.array([4.0]), np.array([1.0, 1.0, 1.0]))
AGGREGATED = [
    (Aggregation.TOKEN_SUM, math.nan, 7.0),
    (Aggregation.TOKEN_MEAN, math.nan, 1.75),
    (Aggregation.SEQ_MEAN_TOKEN_MEAN, math.nan, 2.5),
    (Aggregation.SEQ_MEAN_TOKEN_SUM_NORM, 10.0, 0.35),
]
Weights = tuple[np.ndarray, ...]
Normaliser = Callable[..., Weights]


def check_aggregation(weights_of: Normaliser) -> None:
    """The batch loss by hand, and the same however the batch is cut."""
    masks = [np.ones(1), np.ones(3)]
    for aggregation, constant, expected in AGGREGATED:
        weights = weights_of(aggregation, masks, constant=constant)
        micro = [fsum(w * loss) for w, loss in zip(weights, LOSSES_DT, strict=True)]
        assert sum(micro) == pytest.approx(expected, rel=1e-15), aggregation


def test_aggregation_modes_by_hand() -> None:
    check_aggregation(token_weights)


def test_positions_outside_the_mask_have_weight_zero() -> None:
    masks = [np.array([0, 1, 1]), np.array([False, True, False, True]), floats(0.0, 0.0)]
    for aggregation, constant, _ in AGGREGATED:
        weights = token_weights(aggregation, masks, constant=constant)
        for w, mask in zip(weights, masks, strict=True):
            np.testing.assert_array_equal(w != 0.0, mask != 0)
    grpo = token_weights(Aggregation.SEQ_MEAN_TOKEN_MEAN, masks)
    assert [w.tolist() for w in grpo] == [[0, 0.25, 0.25], [0, 0.25, 0, 0.25], [0, 0]]


def test_an_empty_batch_has_weights_zero_and_no_nan() -> None:
    for aggregation, constant, _ in AGGREGATED:
        assert token_weights(aggregation, [], constant=constant) == ()
        (weights,) = token_weights(aggregation, [np.zeros(2)], constant=constant)
        assert weights.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("loss", LINEAR_IN_A)
def test_weighted_advantages_aggregate_the_loss_itself(loss: LossName) -> None:
    logprobs, inputs = datum(10)
    plain = LOSSES[loss].value(logprobs, inputs, config_of(loss))
    mask = inputs["sequence_ratio_mask"]
    (weights,) = token_weights(Aggregation.SEQ_MEAN_TOKEN_SUM_NORM, [mask], constant=64.0)
    inputs["advantages"] = (inputs["advantages"] * weights).astype(np.float32)
    weighted = LOSSES[loss].value(logprobs, inputs, config_of(loss))
    assert weighted.total == pytest.approx(plain.total / 64.0, rel=1e-14)
    np.testing.assert_array_equal(weighted.grad, plain.grad / np.float32(64.0))


@pytest.mark.parametrize(
    ("aggregation", "constant"),
    [
        *((Aggregation.SEQ_MEAN_TOKEN_SUM_NORM, constant) for constant in (math.nan, 0.0, -1.0, math.inf)),
        (Aggregation.TOKEN_MEAN, 3.0),
    ],
)
def test_dr_grpo_needs_a_constant_and_other_modes_refuse_it(aggregation: Aggregation, constant: float) -> None:
    with pytest.raises(ConfigError, match=f"field: constant = {constant}"):
        token_weights(aggregation, [np.ones(1)], constant=constant)


@pytest.mark.parametrize("mask", [np.array([0.5]), np.ones((1, 2)), np.array([np.nan])])
def test_a_mask_that_is_none_is_named(mask: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"field: masks\[1\]"):
        token_weights(Aggregation.TOKEN_SUM, [np.ones(1), mask])


# Mutants: the checker above must tell each of them from the real thing


def mean_of_micro_batch_means(aggregation: Aggregation, masks: list[np.ndarray], *, constant: float) -> Weights:
    """Each datum its own micro-batch, normalised there, then averaged: 2.5 where 1.75 is right."""
    each = [token_weights(aggregation, [mask], constant=constant)[0] for mask in masks]
    return tuple(weights / len(masks) for weights in each)


def sequences_not_counted(aggregation: Aggregation, masks: list[np.ndarray], *, constant: float) -> Weights:
    return tuple(len(masks) * w for w in token_weights(aggregation, masks, constant=constant))


def sum_always(_aggregation: Aggregation, masks: list[np.ndarray], *, constant: float) -> Weights:
    del constant
    return token_weights(Aggregation.TOKEN_SUM, masks)


@pytest.mark.parametrize("mutant", [mean_of_micro_batch_means, sequences_not_counted, sum_always])
def test_a_mutated_normaliser_is_found(mutant: Normaliser) -> None:
    with pytest.raises(AssertionError):
        check_aggregation(mutant)
