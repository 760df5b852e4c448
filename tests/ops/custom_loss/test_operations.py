"""Every operation of a custom loss against torch's autograd: values, slopes, ties, shapes and types."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from traced import by_torch, clamped, custom
from written_losses import WRITTEN

from tinsmith.ops.custom_loss.functions import expm1, log1p, power, sigmoid, softplus, tanh
from tinsmith.ops.custom_loss.operations import FUNCTIONS, METHODS
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.ops.objectives.losses import LOSSES, LossConfig
from tinsmith.types.datum import LossName

# ruff: noqa: ARG005 - every expression takes the same inputs


RANKS = {"logprobs": 1, "y": 1, "ids": 1, "table": 2, "beta": 0}
Inputs = dict[str, np.ndarray]
Expression = Callable[[Any, Any, Any, Any, Any], Any]
"""(x, y, ids, table, beta): x differentiated, y and table real, ids whole numbers, beta a number."""

UNARY: dict[str, Expression] = {
    name: (lambda x, y, i, t, b, f=f: f(x))
    for name, f in {
        "exp": torch.exp,
        "expm1": torch.expm1,
        "special expm1": torch.special.expm1,
        "log": lambda x: torch.log(x * x + 0.1),
        "log1p": lambda x: torch.log1p(x.abs()),
        "special log1p": lambda x: torch.special.log1p(x * x),
        "sqrt": lambda x: (x * x + 0.5).sqrt(),
        "rsqrt": lambda x: torch.rsqrt(x * x + 0.5),
        "reciprocal": lambda x: torch.reciprocal(x.exp()),
        "sigmoid": torch.sigmoid,
        "expit": torch.special.expit,
        "logsigmoid": F.logsigmoid,
        "softplus": F.softplus,
        "softplus beta": lambda x: F.softplus(x, beta=2.0, threshold=3.0),
        "tanh": torch.tanh,
        "relu": F.relu,
        "relu torch": torch.relu,
        "silu": F.silu,
        "abs": torch.abs,
        "operator abs": abs,
        "square": torch.square,
        "sign": lambda x: x * torch.sign(x),
        "round": lambda x: x * torch.round(x),
        "floor": lambda x: x * x.floor(),
        "ceil": lambda x: x * x.ceil(),
        "trunc": lambda x: x * x.trunc(),
        "neg": lambda x: -x,
        "neg method": lambda x: x.neg() + torch.positive(x) * 2,
        "pow 2": lambda x: x**2,
        "pow 3": lambda x: x.pow(3),
        "pow -2": lambda x: (x * x + 1) ** -2,
        "pow half": lambda x: (x * x + 1) ** 0.5,
        "pow real": lambda x: (x * x + 1) ** 1.7,
        "pow 0": lambda x: x**0,
        "base": lambda x: 2.0**x,
        "pow tensor": lambda x: torch.pow(x * x + 0.3, x),
        "clone": lambda x: x.clone().contiguous(),
        "detach": lambda x: x.detach() * x,
        "data": lambda x: x.data * x,
    }.items()
}

BINARY: dict[str, Expression] = {
    "add": lambda x, y, i, t, b: torch.add(x, y, alpha=2),
    "sub": lambda x, y, i, t, b: torch.sub(x, x.exp(), alpha=0.5) - y,
    "rsub": lambda x, y, i, t, b: torch.rsub(x, y) + (1 - x),
    "mul": lambda x, y, i, t, b: x * y * b,
    "div": lambda x, y, i, t, b: x / (y * y + 1) + y / (x * x + 1) + x.div(2),
    "int": lambda x, y, i, t, b: x * i + i.double() / 4 + i * i - (i // 2),
    "mean of flags": lambda x, y, i, t, b: x * (x > y).double().mean(),
    "count of flags": lambda x, y, i, t, b: x * (x > y).sum() + (x * (y != 0).count_nonzero()),
    "maximum": lambda x, y, i, t, b: torch.maximum(x, y),
    "minimum": lambda x, y, i, t, b: torch.minimum(x, y * 1),
    "min of two": lambda x, y, i, t, b: torch.min(x, y) + torch.max(x, x * 1.0) + x.min(y),
    "where": lambda x, y, i, t, b: torch.where(x > y, x, y) + torch.where(y > 0, x, 0.5),
    "where method": lambda x, y, i, t, b: x.where(y >= 0, -x),
    "masked fill": lambda x, y, i, t, b: x.masked_fill(y == 0, 2.0),
    "flags": lambda x, y, i, t, b: x * ((x > 0) & (y <= 0) | ~(x < y)).float(),
    "more flags": lambda x, y, i, t, b: (
        x
        * torch.logical_and(x.bool(), torch.logical_not(y.bool())).to(x.dtype)
        * torch.logical_xor(y > 0, x > 0).type_as(x)
    ),
    "equal": lambda x, y, i, t, b: x * x.eq(y).double() + x * x.ge(y).float() - x * x.lt(y).float(),
    "clamp": lambda x, y, i, t, b: x.clamp(-1, 1) + torch.clamp(x, min=-0.5) + x.clip(max=1.0),
    "clamp bounds": lambda x, y, i, t, b: torch.clamp(y, x, x + 1) + torch.clamp(x, min=y),
    "clamp crossed": lambda x, y, i, t, b: torch.clamp(x, y, x - 0.5),
    "clamp one": lambda x, y, i, t, b: x.clamp_min(0.0) + torch.clamp_max(x, 0.5),
    "dot": lambda x, y, i, t, b: torch.dot(x, y) * x,
    "mse": lambda x, y, i, t, b: F.mse_loss(x, y) + F.mse_loss(x, y, reduction="sum"),
    "connected": lambda x, y, i, t, b: x * ((x > 0) ^ torch.logical_or(y > 0, x > y)).float(),
    "math of a shape": lambda x, y, i, t, b: x * math.exp(-x.shape[0]) + math.expm1(x.shape[0] / 9),
    "more math": lambda x, y, i, t, b: x * math.log1p(x.shape[0]) + torch.isinf(y).float() * x,
    "real": lambda x, y, i, t, b: x * x.is_floating_point() + x * i.is_floating_point(),
    "tests": lambda x, y, i, t, b: x * torch.isfinite(y).float() + x * torch.isnan(y).float(),
    "shape": lambda x, y, i, t, b: x * x.shape[0] / x.size(0) * x.numel() + x.size()[0] * x * x.ndim,
    "math": lambda x, y, i, t, b: x * math.sqrt(x.shape[0]) + math.log(x.shape[0]) * x,
    "number arithmetic": lambda x, y, i, t, b: x * (x.shape[0] ** 2 // 3 - 1) / (-x.shape[0] + 0.5),
    "dims": lambda x, y, i, t, b: x * x.dim() * t.dim(),
}

SHAPED: dict[str, Expression] = {
    "sum": lambda x, y, i, t, b: (x.unsqueeze(1) * t).sum(1) * x.sum(),
    "sum of all": lambda x, y, i, t, b: (x[:, None] * t).sum(dim=(0, 1)) * (x[:, None] + t).sum(-1, True).exp(),
    "mean": lambda x, y, i, t, b: (x[:, None] * t).mean(0) * x.mean(dim=0, keepdim=True),
    "std": lambda x, y, i, t, b: x / (x.std() + 1) + (x[:, None] * t).var(dim=1, correction=0),
    "std biased": lambda x, y, i, t, b: x * torch.std(x, unbiased=False),
    "amax": lambda x, y, i, t, b: (x[:, None] * t).amax(1) + x.max() + torch.max(x) * torch.amin(x, 0),
    "max of dim": lambda x, y, i, t, b: (x[:, None] + t).max(dim=1).values + (x[:, None] - t).min(1)[0],
    "logsumexp": lambda x, y, i, t, b: torch.logsumexp(x[:, None] * t, 1) + x.logsumexp(0),
    "special logsumexp": lambda x, y, i, t, b: torch.special.logsumexp(x[:, None] + t, dim=(0, 1)),
    "softmax": lambda x, y, i, t, b: F.softmax(x, dim=0) * x + x.softmax(-1) * y,
    "log softmax": lambda x, y, i, t, b: torch.log_softmax(x[:, None] * t, dim=1) * t,
    "cumsum": lambda x, y, i, t, b: x.cumsum(0) * y + torch.cumsum(x[:, None] * t, dim=1).sum(1),
    "reshape": lambda x, y, i, t, b: (x[:, None] * t).reshape(-1) * t.view(-1),
    "view as": lambda x, y, i, t, b: (x[:, None] * t).flatten().view_as(t) * t,
    "flatten": lambda x, y, i, t, b: (x[:, None, None] * t[:, :, None]).flatten(1, 2) * t,
    "squeeze": lambda x, y, i, t, b: x.unsqueeze(0).unsqueeze(-1).squeeze() * y,
    "expand": lambda x, y, i, t, b: x[:, None].expand(-1, 3) * x.unsqueeze(0).expand(2, -1).sum(),
    "expand as": lambda x, y, i, t, b: x[:, None].expand_as(t) * t,
    "repeat": lambda x, y, i, t, b: x.repeat(2) * x.repeat(2, 3)[:, : 2 * x.shape[0]].sum(),
    "transpose": lambda x, y, i, t, b: (x[:, None] * t).transpose(0, 1) * t.T + (x[:, None] * t).t(),
    "swapped": lambda x, y, i, t, b: torch.swapaxes(x[:, None] * t, 0, 1).ravel() * t.ravel(),
    "index by list": lambda x, y, i, t, b: x[[0, 2, 2, -1]] * y[[1, 2, 3, 4]],
    "permute": lambda x, y, i, t, b: (x[:, None, None] * t).permute(2, 0, 1) * y[:, None],
    "index": lambda x, y, i, t, b: x[0] * x[-1] * x[1:] * x[:-1] + x[::2].sum(),
    "ellipsis": lambda x, y, i, t, b: (x[:, None] * t)[..., 1] * x[None, ...],
    "mask": lambda x, y, i, t, b: x[y > -0.2] * y[y > -0.2],
    "masked select": lambda x, y, i, t, b: torch.masked_select(x, y > -0.2).sum() * x,
    "mask of rows": lambda x, y, i, t, b: (x[:, None] * t)[y > -0.2].sum(0),
    "index by tensor": lambda x, y, i, t, b: x[i] * y,
    "index select": lambda x, y, i, t, b: torch.index_select(x[:, None] * t, 0, i) * t,
    "gather": lambda x, y, i, t, b: (x[:, None] * t).gather(1, (i % 3).unsqueeze(1) if False else i[:, None] * 0 + 1),
    "gather rows": lambda x, y, i, t, b: torch.gather(x, 0, i) * x,
    "select": lambda x, y, i, t, b: (x[:, None] * t).select(1, 2) + (x[:, None] * t).narrow(1, 1, 2).sum(1),
    "flip": lambda x, y, i, t, b: x.flip(0) * x + (torch.flip(x[:, None] * t, [0, 1]) * t).sum(1),
    "roll": lambda x, y, i, t, b: torch.roll(x, 1) * x + x.roll(-2, 0) * y,
    "cat": lambda x, y, i, t, b: torch.cat([x, y, x * 2]) * torch.cat((y, x, x)).exp(),
    "stack": lambda x, y, i, t, b: torch.stack([x, y, x * x], dim=1) * t,
    "like": lambda x, y, i, t, b: x * torch.ones_like(x) + torch.zeros_like(x) + torch.full_like(x, 2),
    "made": lambda x, y, i, t, b: x * torch.arange(x.shape[0]) + torch.ones(x.shape[0]) * x + torch.zeros(x.shape[0]),
    "counted": lambda x, y, i, t, b: x * torch.arange(1, x.shape[0] * 2 + 1, 2, device=x.device),
    "new": lambda x, y, i, t, b: x * x.new_full((1,), 3) + x.new_zeros(1) + x.new_tensor(0.5) * x.new_ones((1,)),
    "filled": lambda x, y, i, t, b: x * torch.full((x.shape[0],), 0.5, dtype=torch.float64),
    "types": lambda x, y, i, t, b: x * y.long() + x.double() * i.float() + x * y.bool() + x.to(y) * i.int(),
    "any": lambda x, y, i, t, b: x * (t > 1).any(1).float() + x * (t > 0).all(dim=1).float(),
    "any of all": lambda x, y, i, t, b: x * torch.any(y > 9).float() + x * torch.all(y < 9).float(),
}  # fmt: skip

EXPRESSIONS = {**UNARY, **BINARY, **SHAPED}
EACH = pytest.mark.parametrize("name", EXPRESSIONS)


def _function(expression: Expression) -> Callable[..., Any]:
    def loss(logprobs: Any, y: Any, ids: Any, table: Any, beta: Any) -> Any:
        return expression(logprobs, y, ids, table, beta).sum(), {}

    return loss


def _datum(seed: int) -> tuple[np.ndarray, Inputs]:
    """Values with ties: x = y here and there, and some at 0, 1/2 and 1."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=7) * 4) / 4 if seed % 2 else rng.normal(size=7)
    inputs = {
        "y": np.where(rng.random(7) < 0.4, x, rng.normal(size=7)).astype(np.float32),
        "ids": rng.integers(0, 7, 7),
        "table": rng.normal(size=(7, 3)).astype(np.float32),
        "beta": np.array(0.5, np.float32),
    }
    return x.astype(np.float32), inputs


@EACH
def test_an_operation_has_torchs_value_and_slope(name: str) -> None:
    function = _function(EXPRESSIONS[name])
    objective = custom(function, RANKS).objective()
    for seed in range(4):
        x, inputs = _datum(seed)
        total, grad, _ = by_torch(function, x, inputs)
        found = objective.value(x, inputs)
        assert found.total == pytest.approx(total, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(found.grad, grad.astype(np.float32), rtol=3e-7, atol=1e-7)


def test_every_operation_is_tested() -> None:
    named: set[str] = set()
    for expression in EXPRESSIONS.values():
        for call in custom(_function(expression), RANKS).graph.calls:
            named.add(call.place.rsplit("(", 1)[1].rstrip(")"))
    operations = {id(FUNCTIONS.get(name) or METHODS.get(name)) for name in named}
    untested = [n for table in (FUNCTIONS, METHODS) for n, o in table.items() if id(o) not in operations]
    assert not untested, " ".join(untested)


@given(
    arrays.arrays(np.float32, 6, elements=st.floats(-8, 8, width=32)),
    arrays.arrays(np.float32, 6, elements=st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.8, 1.0, 1.2])),
)
@settings(max_examples=60, deadline=None)
def test_bounds_and_ties_have_their_slopes(x: np.ndarray, y: np.ndarray) -> None:
    x = np.where(np.arange(6) % 2, x, y)
    inputs = {"y": y}
    total, grad, _ = by_torch(_ties, x, inputs)
    found = _TIES.value(x, inputs)
    assert found.total == pytest.approx(total, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(found.grad, grad.astype(np.float32), rtol=3e-7, atol=1e-30)


def _ties(logprobs: Any, y: Any) -> Any:
    x = logprobs
    bounded = x.clamp(0.8, 1.2) + torch.clamp(x, y, y + 0.5) + torch.maximum(x, y) + x.abs()
    return (bounded + torch.relu(x) * 3 + torch.min(x * 2, y)).sum() + x.amax() + x.min(), {}


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (None, 0.5), (0.5, None), (0.5, 0.5)])
@pytest.mark.parametrize("of", [lambda bound: bound, torch.tensor])
def test_the_closed_clamp_is_torchs_but_at_its_bounds(low: float | None, high: float | None, of: Any) -> None:
    x = torch.linspace(-2, 2, 17, dtype=torch.float64, requires_grad=True)
    bounds = [None if bound is None else of(bound) for bound in (low, high)]
    ours, theirs = clamped(x, *bounds), x.clamp(*bounds)
    assert torch.equal(ours, theirs)
    (slope,), (torchs,) = (torch.autograd.grad(each.sum(), x) for each in (ours, theirs))
    at = (x == (low if low is not None else high)) | (x == high)
    assert torch.equal(slope[~at], torchs[~at])
    assert bool((slope[at] == 1).all())


_TIES = custom(_ties, {"logprobs": 1, "y": 1}).objective()


@pytest.mark.parametrize("x", [[-1.5], [-2.0, -2.0, -2.0]])
def test_a_deviation_of_0_has_torchs_slope(x: list[float]) -> None:
    def loss(logprobs: Any) -> Any:
        return (logprobs / (logprobs.std(correction=0) + 1)).sum(), {}

    logprobs = np.array(x, np.float32)
    total, grad, _ = by_torch(loss, logprobs, {})
    found = custom(loss, {"logprobs": 1}).objective().value(logprobs, {})
    assert found.total == total
    np.testing.assert_array_equal(found.grad, grad.astype(np.float32))


Function = Callable[[np.ndarray], np.ndarray]
X = np.concatenate(
    [
        np.random.default_rng(0).normal(size=2000) * 3,
        np.random.default_rng(1).normal(size=2000) * 1e-6,
        np.linspace(-0.4, 0.4, 801),
        np.linspace(-700.0, 700.0, 601),
    ]
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (expm1, math.expm1),
        (lambda x: log1p(np.abs(x)), lambda x: math.log1p(abs(x))),
        (lambda x: log1p(-np.minimum(np.abs(x), 0.999)), lambda x: math.log1p(-min(abs(x), 0.999))),
        (tanh, math.tanh),
        (sigmoid, lambda x: 1.0 / (1.0 + math.exp(-x)) if x > 0 else math.exp(x) / (1.0 + math.exp(x))),
        (softplus, lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x)))),
    ],
)
def test_a_function_is_within_a_few_units_of_the_c_library(ours: Function, theirs: Callable[[float], float]) -> None:
    expected = np.array([theirs(float(x)) for x in X])
    np.testing.assert_array_max_ulp(ours(X), expected, maxulp=6)


@pytest.mark.parametrize("y", [2.0, 3.0, -1.0, -4.0, 0.5, 0.0, 1.0, 31.0, 1.7, -0.3, 40.0, 41.0])
def test_power_is_the_c_librarys(y: float) -> None:
    x = np.concatenate([np.linspace(0.01, 5.0, 400), [1.0, 0.5, 2.0]])
    if y == round(y):
        x = np.concatenate([x, -x])
    expected = np.array([math.pow(each, y) for each in x])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(power(x, np.full_like(x, y)), expected, rtol=4e-14)


def test_power_at_the_edges_is_ieees() -> None:
    with np.errstate(all="ignore"):
        x = np.array([0.0, 0.0, 0.0, -2.0, np.inf, np.inf, 1.0, np.nan, 0.5, -1.0])
        y = np.array([0.0, 2.0, -1.0, 0.5, 2.5, -2.5, np.nan, 0.0, np.inf, np.inf])
        np.testing.assert_array_equal(power(x, y), np.power(x, y))


def test_edges_are_exact() -> None:
    edges = np.array([0.0, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(expm1(edges), [0.0, np.inf, -1.0, np.nan])
        np.testing.assert_array_equal(tanh(edges), [0.0, 1.0, -1.0, np.nan])
        np.testing.assert_array_equal(sigmoid(edges), [0.5, 1.0, 0.0, np.nan])
        np.testing.assert_array_equal(softplus(edges)[1:], [np.inf, 0.0, np.nan])
        np.testing.assert_array_equal(log1p(np.array([0.0, np.inf, -1.0, -2.0])), [0.0, np.inf, -np.inf, np.nan])


def test_the_functions_have_these_bits() -> None:
    """Committed, so that another machine with other bits is found out."""
    x = np.round(X * 2.0**20) / 2.0**20
    found = hashlib.sha256()
    with np.errstate(all="ignore"):
        for values in (
            expm1(x), log1p(np.abs(x)), tanh(x), sigmoid(x), softplus(x),
            power(np.abs(x), np.full_like(x, 1.7)),
        ):  # fmt: skip
            found.update((values + 0.0).tobytes())
    assert found.hexdigest()[:16] == "d2c66a0edab591c5"


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
