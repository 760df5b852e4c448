"""Requirements on every entry of the loss registry."""

import math

import numpy as np
import pytest
from loss_cases import ALL, LINEAR_IN_A, SAMPLED, TOKEN_WISE, config_of, datum, floats, one_token

from tinsmith.ops.exact import fsum
from tinsmith.ops.objectives.loss_config import DEFAULTS
from tinsmith.ops.objectives.losses import LOSSES, LossConfig, optional_inputs, required_inputs
from tinsmith.types.datum import LossName
from tinsmith.types.errors import InputError


def test_the_registry_holds_every_loss() -> None:
    assert set(LOSSES) == set(LossName)
    assert set(DEFAULTS) == set(LossName)


@pytest.mark.parametrize("loss", ALL)
def test_metrics_have_the_names_the_registry_lists(loss: LossName) -> None:
    logprobs, inputs = datum(1)
    value = LOSSES[loss].value(logprobs, inputs, config_of(loss))
    assert tuple(value.metrics) == LOSSES[loss].metrics
    assert all(type(number) is float for number in value.metrics.values())
    assert value.grad.dtype == np.float32
    assert value.grad.shape == logprobs.shape


@pytest.mark.parametrize("loss", ALL)
def test_only_the_listed_inputs_are_read(loss: LossName) -> None:
    logprobs, inputs = datum(2)
    names = (*required_inputs(loss), *optional_inputs(loss))
    listed = {name: inputs[name] for name in names}
    with_noise = {**inputs, "mask": floats(1.0)}
    one = LOSSES[loss].value(logprobs, listed, config_of(loss))
    two = LOSSES[loss].value(logprobs, with_noise, config_of(loss))
    assert one.total == two.total
    np.testing.assert_array_equal(one.grad, two.grad)


@pytest.mark.parametrize("loss", SAMPLED)
def test_a_missing_input_is_named(loss: LossName) -> None:
    logprobs, inputs = datum(3)
    for name in required_inputs(loss):
        if name != "target_tokens":
            lacking = {key: column for key, column in inputs.items() if key != name}
            with pytest.raises(InputError, match=rf"loss_fn_inputs\.{name}\n"):
                LOSSES[loss].value(logprobs, lacking, config_of(loss))


@pytest.mark.parametrize("loss", ALL)
def test_an_input_of_another_length_or_not_finite_is_named(loss: LossName) -> None:
    logprobs, inputs = datum(4)
    name = "weights" if loss is LossName.CROSS_ENTROPY else "advantages"
    with pytest.raises(InputError, match=rf"{name}\.shape = \(39,\)\n.*\(40,\)"):
        LOSSES[loss].value(logprobs, {**inputs, name: inputs[name][1:]}, config_of(loss))
    broken = inputs[name].copy()
    broken[7] = np.nan
    with pytest.raises(InputError, match=rf"{name}\[7\] = nan"):
        LOSSES[loss].value(logprobs, {**inputs, name: broken}, config_of(loss))


@pytest.mark.parametrize("loss", ALL)
def test_the_order_of_datums_changes_no_bit(loss: LossName) -> None:
    datums = [datum(seed, size=10 + seed) for seed in range(6)]
    order = [3, 0, 5, 1, 4, 2]
    forward = [LOSSES[loss].value(p, x, config_of(loss)) for p, x in datums]
    shuffled = [LOSSES[loss].value(*datums[i], config_of(loss)) for i in order]
    for value, i in zip(shuffled, order, strict=True):
        assert value.total == forward[i].total
        assert value.grad.tobytes() == forward[i].grad.tobytes()
    totals = [value.total for value in forward]
    assert fsum(np.array(totals)) == fsum(np.array([value.total for value in shuffled]))


@pytest.mark.parametrize("loss", TOKEN_WISE)
def test_cutting_a_datum_between_tokens_changes_no_gradient_bit(loss: LossName) -> None:
    logprobs, inputs = datum(5)
    whole = LOSSES[loss].value(logprobs, inputs, config_of(loss))
    cuts = [slice(0, 13), slice(13, 14), slice(14, None)]
    parts = [
        LOSSES[loss].value(logprobs[cut], {name: x[cut] for name, x in inputs.items()}, config_of(loss)) for cut in cuts
    ]
    assert np.concatenate([part.grad for part in parts]).tobytes() == whole.grad.tobytes()
    assert math.fsum(part.total for part in parts) == pytest.approx(whole.total, rel=1e-14)
    for name in LOSSES[loss].metrics:
        split = math.fsum(part.metrics[name] for part in parts)
        assert split == pytest.approx(whole.metrics[name], rel=1e-14)


@pytest.mark.parametrize("loss", SAMPLED)
def test_the_order_of_tokens_changes_no_bit_of_the_total(loss: LossName) -> None:
    logprobs, inputs = datum(6)
    order = np.random.default_rng(0).permutation(logprobs.size)
    whole = LOSSES[loss].value(logprobs, inputs, config_of(loss))
    mixed = LOSSES[loss].value(logprobs[order], {name: x[order] for name, x in inputs.items()}, config_of(loss))
    assert mixed.total == whole.total
    assert mixed.grad.tobytes() == whole.grad[order].tobytes()
    assert mixed.metrics == whole.metrics


@pytest.mark.parametrize("loss", LINEAR_IN_A)
@pytest.mark.parametrize("logprob", [-1e30, -math.inf, 0.0, math.nan])
@pytest.mark.parametrize("q", [0.0, -3e4])
def test_a_position_with_no_advantage_has_exactly_no_part(loss: LossName, logprob: float, q: float) -> None:
    inputs = {"logprobs": floats(q, -1.0), "advantages": floats(0.0, 1.0), "sequence_ratio_mask": floats(0.0, 1.0)}
    value = LOSSES[loss].value(floats(logprob, -1.0), inputs, config_of(loss))
    alone = one_token(LOSSES[loss].value, loss, difference=0.0, a=1.0)
    assert value.total == alone.total
    assert value.grad.tobytes() == np.concatenate([floats(0.0), alone.grad]).tobytes()


def test_dro_penalises_positions_with_no_advantage_too() -> None:
    value = one_token(LOSSES[LossName.DRO].value, LossName.DRO, difference=0.5, a=0.0)
    assert value.total == pytest.approx(0.5 * 0.05 * 0.25)
    assert value.grad == pytest.approx([0.05 * 0.5])


@pytest.mark.parametrize("loss", ALL)
def test_nothing_to_train_gives_zero_and_no_nan(loss: LossName) -> None:
    logprobs, inputs = datum(7)
    nothing = {name: np.zeros_like(column) for name, column in inputs.items()}
    nothing["logprobs"] = logprobs
    for p, x in [(logprobs, nothing), (logprobs[:0], {k: v[:0] for k, v in inputs.items()})]:
        value = LOSSES[loss].value(p, x, config_of(loss))
        assert value.total == 0.0
        assert not value.grad.any()
        assert all(math.isfinite(number) for number in value.metrics.values())


def test_gspo_without_a_marked_token_is_zero_even_where_advantages_are_not() -> None:
    logprobs, inputs = datum(8)
    inputs["sequence_ratio_mask"] = np.zeros_like(logprobs)
    value = LOSSES[LossName.GSPO].value(logprobs, inputs, config_of(LossName.GSPO))
    assert value.total == 0.0
    assert not value.grad.any()
    assert value.metrics["tokens"] == 0.0


def test_a_sequence_ratio_that_overflows_leaves_positions_with_no_advantage_at_zero() -> None:
    inputs = {
        "logprobs": floats(-2000.0, -1.0),
        "advantages": floats(0.0, 1.0),
        "sequence_ratio_mask": floats(1.0, 1.0),
    }
    value = LOSSES[LossName.GSPO].value(floats(-0.5, -1.0), inputs, config_of(LossName.GSPO))
    assert value.total == -np.float64(1.2)
    assert value.grad.tolist() == [0.0, 0.0]


def test_a_weight_of_zero_hides_an_impossible_token() -> None:
    inputs = {"weights": floats(0.0, 1.0)}
    value = LOSSES[LossName.CROSS_ENTROPY].value(floats(-math.inf, -2.0), inputs, LossConfig())
    assert value.total == 2.0
    assert value.grad.tolist() == [0.0, -1.0]


@pytest.mark.parametrize(("difference", "a", "total"), [(100.0, -1.0, 2.6881171418161356e43), (700.0, -1e30, math.inf)])
def test_an_overflow_that_counts_is_visible_and_warns_nobody(difference: float, a: float, total: float) -> None:
    loss = LossName.IMPORTANCE_SAMPLING
    value = one_token(LOSSES[loss].value, loss, difference=difference, a=a)
    assert value.total == pytest.approx(total, rel=1e-14)
    assert value.grad.tolist() == [math.inf]  # beyond float32


def test_on_policy_every_ratio_is_literally_one() -> None:
    logprobs, inputs = datum(9, spread=0.0)
    action = inputs["sequence_ratio_mask"] != 0
    inputs["logprobs"] = np.where(action, logprobs, np.float32(0.0))
    for loss in (LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO, LossName.GSPO):
        value = LOSSES[loss].value(logprobs, inputs, config_of(loss))
        np.testing.assert_array_equal(value.grad, -inputs["advantages"])
        assert value.metrics["unequal_logprob_bits"] == 0.0
