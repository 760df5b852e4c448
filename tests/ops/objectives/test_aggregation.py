"""Normalisers of a batch: token losses [4] and [1, 1, 1], however the batch is cut."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from loss_cases import LINEAR_IN_A, config_of, datum, floats

from tinsmith.ops.exact import fsum
from tinsmith.ops.objectives.aggregation import Aggregation, token_weights
from tinsmith.ops.objectives.losses import LOSSES
from tinsmith.types.datum import LossName
from tinsmith.types.errors import ConfigError, InputError

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


@pytest.mark.parametrize("constant", [math.nan, 0.0, -1.0, math.inf])
def test_dr_grpo_needs_a_constant(constant: float) -> None:
    with pytest.raises(ConfigError, match="field: constant"):
        token_weights(Aggregation.SEQ_MEAN_TOKEN_SUM_NORM, [np.ones(1)], constant=constant)


def test_other_modes_refuse_a_constant() -> None:
    with pytest.raises(ConfigError, match=r"field: constant = 3\.0"):
        token_weights(Aggregation.TOKEN_MEAN, [np.ones(1)], constant=3.0)


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


def test_the_mean_of_micro_batch_means_is_the_bug_it_is_known_for() -> None:
    weights = mean_of_micro_batch_means(Aggregation.TOKEN_MEAN, [np.ones(1), np.ones(3)], constant=math.nan)
    assert sum(fsum(w * loss) for w, loss in zip(weights, LOSSES_DT, strict=True)) == 2.5
