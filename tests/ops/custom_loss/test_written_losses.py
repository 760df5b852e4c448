"""Custom losses as users write them: value, gradient and metrics of torch's autograd; the built-in ones' very bits."""

import numpy as np
import pytest
from traced import by_torch, custom
from written_losses import WRITTEN

from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.ops.objectives.losses import LOSSES, LossConfig
from tinsmith.types.datum import LossName

Inputs = dict[str, np.ndarray]
NAMES = pytest.mark.parametrize("name", WRITTEN)


def datum(name: str, seed: int, *, spread: float = 0.4) -> tuple[np.ndarray, Inputs]:
    """A datum of this loss, half of it a prompt without advantages and weights."""
    ranks, rng = WRITTEN[name][1], np.random.default_rng(seed)
    shape = (24,) if ranks["logprobs"] == 1 else (24, 5)
    action = np.arange(24) >= 8
    if len(shape) == 2:
        action = np.repeat(action[:, None], 5, 1)
    logprobs = -rng.exponential(1.5, shape)
    near = logprobs + rng.normal(scale=spread, size=shape)
    columns = {
        "old": np.where(action, near, 0.0),
        "reference": np.where(action, near, -1.0),
        "teacher": near,
        "advantages": np.where(action, rng.normal(size=shape), 0.0),
        "weights": np.where(action, rng.normal(size=shape), 0.0),
        "rewards": rng.normal(size=shape),
        "chosen": rng.integers(0, 2, shape) * 1.0,
        "mask": action * 1.0,
        "beta": np.array(0.1),
        "gamma": np.array(2.5),
        "target_tokens": rng.integers(0, 3, shape),
    }
    inputs = {each: columns[each] for each in ranks if each != "logprobs"}
    typed = {k: v if k == "target_tokens" else v.astype(np.float32) for k, v in inputs.items()}
    return logprobs.astype(np.float32), typed


def loss_of(name: str) -> CustomLoss:
    return custom(*WRITTEN[name])


@NAMES
def test_value_gradient_and_metrics_are_torchs(name: str) -> None:
    objective = loss_of(name).objective()
    for seed in range(6):
        for spread in (0.02, 0.4, 2.0):
            logprobs, inputs = datum(name, seed, spread=spread)
            total, grad, metrics = by_torch(WRITTEN[name][0], logprobs, inputs)
            found = objective.value(logprobs, inputs)
            assert found.total == pytest.approx(total, rel=1e-12, abs=1e-12)
            np.testing.assert_allclose(found.grad, grad.astype(np.float32), rtol=3e-7, atol=1e-9)
            assert found.metrics == pytest.approx(metrics, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    "loss", [LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO, LossName.DRO, LossName.GSPO]
)
def test_built_in_losses_written_as_custom_ones_have_the_same_bits(loss: LossName) -> None:
    objective = loss_of(loss.value).objective()
    config = LossConfig.from_mapping(loss, {"beta": 0.05} if loss is LossName.DRO else {})
    for seed in range(20):
        logprobs, inputs = datum(loss.value, seed)
        named = {"old": "logprobs", "mask": "sequence_ratio_mask"}
        theirs = {named.get(name, name): values for name, values in inputs.items()}
        built_in = LOSSES[loss].value(logprobs, theirs, config)
        found = objective.value(logprobs, inputs)
        if loss in (LossName.DRO, LossName.GSPO):
            np.testing.assert_array_max_ulp(found.grad, built_in.grad, maxulp=1)
            continue
        assert found.grad.tobytes() == built_in.grad.tobytes()
        assert found.total == pytest.approx(built_in.total, rel=1e-15)


def test_metrics_are_summed_or_averaged_over_datums() -> None:
    objective = loss_of("importance_sampling").objective()
    values = [objective.value(*datum("importance_sampling", seed)) for seed in range(3)]
    metrics = objective.metrics(values)
    assert metrics == objective.metrics(values[::-1])
    assert metrics["custom/tokens:sum"] == sum(v.metrics["custom/tokens:sum"] for v in values) == 48
    mean = sum(v.metrics["custom/ratio:mean"] for v in values) / 3
    assert metrics["custom/ratio:mean"] == pytest.approx(mean)
    assert list(metrics) == ["loss:sum", "custom/ratio:mean", "custom/tokens:sum"]
