"""Data, the published torch code and the checker that the loss tests share."""

import numpy as np
import pytest
import torch
from traced import ClosedClamp

from tinsmith.ops.objectives.losses import LossConfig, LossFunction, LossValue
from tinsmith.types.datum import LossName

ALL = list(LossName)
SAMPLED = [loss for loss in ALL if loss is not LossName.CROSS_ENTROPY]
LINEAR_IN_A = [loss for loss in SAMPLED if loss is not LossName.DRO]
TOKEN_WISE = [loss for loss in ALL if loss is not LossName.GSPO]

Inputs = dict[str, np.ndarray]
Columns = dict[str, torch.Tensor]


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def config_of(loss: LossName, **settings: float) -> LossConfig:
    if loss is LossName.DRO:
        settings = {"beta": 0.05, **settings}
    return LossConfig.from_mapping(loss, settings)


def one_token(function: LossFunction, loss: LossName, *, difference: float, a: float) -> LossValue:
    inputs = {"logprobs": floats(-1.0 - difference), "advantages": floats(a), "sequence_ratio_mask": floats(1.0)}
    return function(floats(-1.0), inputs, config_of(loss))


def datum(seed: int, *, size: int = 40, spread: float = 0.4) -> tuple[np.ndarray, Inputs]:
    """Half a prompt with A = q = 0, half a completion with advantages of both signs."""
    rng = np.random.default_rng(seed)
    action = np.arange(size) >= size // 2
    logprobs = -rng.exponential(1.5, size)
    inputs = {
        "target_tokens": rng.integers(0, 99, size),
        "weights": np.where(action, rng.normal(size=size), 0.0),
        "logprobs": np.where(action, logprobs + rng.normal(scale=spread, size=size), 0.0),
        "advantages": np.where(action, rng.normal(size=size), 0.0),
        "sequence_ratio_mask": action * 1.0,
    }
    columns = {
        name: column if name == "target_tokens" else column.astype(np.float32) for name, column in inputs.items()
    }
    return logprobs.astype(np.float32), columns


# The published code, in torch float64; p: log-probabilities, x: inputs, c: settings.


def torch_cross_entropy(p: torch.Tensor, x: Columns, _c: LossConfig) -> torch.Tensor:
    return (-p * x["weights"]).sum()


def torch_importance_sampling(p: torch.Tensor, x: Columns, _c: LossConfig) -> torch.Tensor:
    return -(torch.exp(p - x["logprobs"]) * x["advantages"]).sum()


def torch_clipped(ratio: torch.Tensor, x: Columns, c: LossConfig) -> torch.Tensor:
    clipped = torch.clamp(ratio, c.clip_low_threshold, c.clip_high_threshold)
    return -torch.min(ratio * x["advantages"], clipped * x["advantages"]).sum()


def torch_ppo(p: torch.Tensor, x: Columns, c: LossConfig) -> torch.Tensor:
    return torch_clipped(torch.exp(p - x["logprobs"]), x, c)


def torch_cispo(p: torch.Tensor, x: Columns, c: LossConfig) -> torch.Tensor:
    ratio = torch.exp(p - x["logprobs"])
    clipped = torch.clamp(ratio, c.clip_low_threshold, c.clip_high_threshold)
    return -(clipped.detach() * p * x["advantages"]).sum()


def torch_dro(p: torch.Tensor, x: Columns, c: LossConfig) -> torch.Tensor:
    penalty = (p - x["logprobs"]) ** 2
    return -(p * x["advantages"] - 0.5 * c.beta * penalty).sum()


def torch_gspo(p: torch.Tensor, x: Columns, c: LossConfig) -> torch.Tensor:
    in_ratio = x["sequence_ratio_mask"] != 0
    log_ratio = (p.detach() - x["logprobs"])[in_ratio].mean()
    return torch_clipped(torch.exp(log_ratio + p - p.detach()), x, c)


PUBLISHED = {
    LossName.CROSS_ENTROPY: torch_cross_entropy,
    LossName.IMPORTANCE_SAMPLING: torch_importance_sampling,
    LossName.PPO: torch_ppo,
    LossName.CISPO: torch_cispo,
    LossName.DRO: torch_dro,
    LossName.GSPO: torch_gspo,
}


def assert_is_published_code(
    loss: LossName, function: LossFunction, logprobs: np.ndarray, inputs: Inputs, config: LossConfig
) -> None:
    p = torch.tensor(logprobs.astype(np.float64), requires_grad=True)
    columns = {name: torch.tensor(column.astype(np.float64)) for name, column in inputs.items()}
    with ClosedClamp():
        total = PUBLISHED[loss](p, columns, config)
    total.backward()
    value = function(logprobs, inputs, config)
    assert value.total == pytest.approx(total.item(), rel=1e-12, abs=1e-12)
    np.testing.assert_array_max_ulp(value.grad, p.grad.numpy().astype(np.float32), maxulp=1)


def check_loss(loss: LossName, function: LossFunction) -> None:
    """Everything a formula must satisfy; also what the mutants below must fail."""
    for seed in range(8):
        for spread in (0.02, 0.4, 2.0):
            logprobs, inputs = datum(seed, spread=spread)
            assert_is_published_code(loss, function, logprobs, inputs, config_of(loss))
