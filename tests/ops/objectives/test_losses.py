"""Losses against hand-computed numbers, torch's autograd of the published code, and mutants."""

import dataclasses
import math

import numpy as np
import pytest
from loss_cases import ALL, Inputs, assert_is_published_code, check_loss, config_of, floats, one_token

from tinsmith.ops.exact import exp, fsum
from tinsmith.ops.objectives.losses import LOSSES, LossConfig, LossFunction, LossValue
from tinsmith.types.datum import LossName

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
