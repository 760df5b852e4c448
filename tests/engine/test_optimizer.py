"""The optimizer step against torch's AdamW in float64, and what it refuses."""

import math
from dataclasses import replace

import pytest
import torch

from oracles import LLAMA, QWEN2, QWEN3, Tensors, gradients, make_adapter, make_datums, weights_sha256
from tinsmith.engine.training import TrainingSession
from tinsmith.models.config import DecoderConfig
from tinsmith.models.slots import values
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, LossName
from tinsmith.types.errors import InputError
from tinsmith.types.fingerprints import tensors_sha256

pytestmark = pytest.mark.whole

KINDS = pytest.mark.parametrize("kind", list(AdapterKind))


def _session(kind: AdapterKind, config: DecoderConfig = LLAMA) -> TrainingSession:
    return TrainingSession(make_adapter(config, AdapterSpec(kind=kind, rank=4, seed=5)))


def _accumulate(session: TrainingSession, seed: int = 1) -> None:
    datums = make_datums(session.adapter.decoder.config, (20, 7, 13), seed)
    session.forward_backward(datums, LossName.CROSS_ENTROPY)


def _state_sha256(session: TrainingSession) -> str:
    """The hash of everything a step may change: weights, moments, gradients, number of steps."""
    tensors = {f"weight {name}": tensor for name, tensor in values(session.adapter.slots).items()}
    for i, weight in enumerate(session.adapter.weights()):
        tensors[f"m {i}"], tensors[f"v {i}"] = session.optimizer.moments_of(weight)
    for i, gradient in enumerate(session.optimizer.sums.total()):
        tensors[f"gradient {i}"] = gradient
    tensors["steps"] = torch.tensor(session.optimizer.step_count)
    return tensors_sha256({name: tensor.numpy() for name, tensor in tensors.items()})


def _norm(tensors: Tensors) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors.values()))


class _TorchAdamW:
    """torch.optim.AdamW over float64 copies of a session's tensors."""

    def __init__(self, session: TrainingSession, params: AdamParams) -> None:
        tensors = values(session.adapter.slots)
        self.parameters = {n: torch.nn.Parameter(t.double()) for n, t in tensors.items()}
        self.clip = params.grad_clip_norm
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=params.learning_rate,
            betas=(params.beta1, params.beta2),
            eps=params.eps,
            weight_decay=params.weight_decay,
        )

    def step(self, gradient: Tensors) -> None:
        for name, parameter in self.parameters.items():
            parameter.grad = gradient[name].double()
        norm = _norm(gradient)
        if 0.0 < self.clip < norm:
            for parameter in self.parameters.values():
                assert parameter.grad is not None
                parameter.grad *= self.clip / norm
        self.optimizer.step()


def _assert_steps_like_torch(session: TrainingSession, params: AdamParams) -> None:
    torch_side = _TorchAdamW(session, params)
    start = values(session.adapter.slots)
    for step in range(4):
        _accumulate(session, step)
        torch_side.step(gradients(session))
        session.optim_step(params)
        for name, ours in values(session.adapter.slots).items():
            reference = torch_side.parameters[name].detach()
            difference = float((ours.double() - reference).norm())
            moved = float((reference - start[name].double()).norm())
            assert difference <= 1e-6 * float(reference.norm())
            rounding = 1e-7 * (step + 1) * float(reference.norm())
            assert difference <= 1e-6 * moved + rounding


SETTINGS = {
    "default": AdamParams(learning_rate=1e-2),
    "weight_decay": AdamParams(learning_rate=1e-2, weight_decay=0.3),
    "clipped": AdamParams(learning_rate=1e-2, weight_decay=0.1, grad_clip_norm=0.5, eps=1e-3),
    "no_momentum": AdamParams(learning_rate=1e-2, beta1=0.0, beta2=0.0, eps=1e-2),
    "large_eps": AdamParams(learning_rate=1e-2, eps=10.0),
    "long_memory": AdamParams(learning_rate=1e-2, beta1=0.99, beta2=0.999),
}


@KINDS
@pytest.mark.parametrize("params", SETTINGS.values(), ids=list(SETTINGS))
def test_a_step_is_torchs_adamw(kind: AdapterKind, params: AdamParams) -> None:
    _assert_steps_like_torch(_session(kind), params)


@pytest.mark.parametrize("config", [QWEN2, QWEN3], ids=["qwen2", "qwen3"])
def test_biases_and_head_norms_are_stepped_too(config: DecoderConfig) -> None:
    _assert_steps_like_torch(_session(AdapterKind.FULL, config), SETTINGS["clipped"])


@KINDS
def test_the_reported_norm_is_that_of_the_published_tensors_before_clipping(kind: AdapterKind) -> None:
    norms: list[float] = []
    for clip in (0.0, 1e-3):
        session = _session(kind)
        _accumulate(session)
        expected = _norm(gradients(session))
        norms.append(session.optim_step(AdamParams(grad_clip_norm=clip))["grad_norm:mean"])
        assert norms[-1] == pytest.approx(expected, rel=1e-12)
    assert norms[0] == norms[1]


@KINDS
def test_a_learning_rate_of_zero_changes_no_bit_of_a_weight(kind: AdapterKind) -> None:
    session = _session(kind)
    before = weights_sha256(session.adapter)
    for step in range(3):
        _accumulate(session, step)
        session.optim_step(AdamParams(learning_rate=0.0, weight_decay=0.5, grad_clip_norm=1.0))
        assert weights_sha256(session.adapter) == before


@KINDS
def test_a_step_without_a_gradient_changes_no_bit_of_a_weight(kind: AdapterKind) -> None:
    session = _session(kind)
    before = weights_sha256(session.adapter)
    assert session.optim_step(AdamParams(learning_rate=1.0)) == {"grad_norm:mean": 0.0}
    assert weights_sha256(session.adapter) == before


# Refused

NEVER = (math.nan, math.inf, -math.inf, -1.0, -1e-9)
REFUSED = [
    *[(name, value) for name in ("learning_rate", "eps", "weight_decay") for value in NEVER],
    *[("grad_clip_norm", value) for value in NEVER],
    *[(name, value) for name in ("beta1", "beta2") for value in (*NEVER, 1.0, 1.5)],
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_setting_out_of_range_is_named_and_nothing_is_changed(name: str, value: float) -> None:
    session = _session(AdapterKind.DORA)
    _accumulate(session)
    session.optim_step(AdamParams())
    _accumulate(session, 2)
    before = _state_sha256(session)
    with pytest.raises(InputError, match=rf"field: {name} = .*\n  allowed: "):
        session.optim_step(replace(AdamParams(), **{name: value}))
    assert _state_sha256(session) == before


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.FULL])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_refused_and_nothing_is_changed(kind: AdapterKind, value: float) -> None:
    session = _session(kind)
    _accumulate(session)
    session.optimizer.sums.total()[-1].view(-1)[-1] = value
    before = _state_sha256(session)
    with pytest.raises(InputError, match="field: gradient norm = "):
        session.optim_step(AdamParams())
    assert _state_sha256(session) == before


# Legal settings and gradients must leave weights that can be computed with.


def _assert_step_is_refused_or_finite(session: TrainingSession, params: AdamParams) -> None:
    before = _state_sha256(session)
    try:
        session.optim_step(params)
    except InputError:
        assert _state_sha256(session) == before
    tensors = [*values(session.adapter.slots).values()]
    for weight in session.adapter.weights():
        tensors += session.optimizer.moments_of(weight)
    assert all(bool(tensor.isfinite().all()) for tensor in tensors)


def test_an_eps_of_zero_gives_no_nan() -> None:
    session = TrainingSession(make_adapter(LLAMA, AdapterSpec(rank=4), active=False))
    _accumulate(session)
    _assert_step_is_refused_or_finite(session, AdamParams(eps=0.0))


@pytest.mark.parametrize("changes", [{"learning_rate": 1e39}, {"weight_decay": 1e43}])
def test_settings_beyond_float32_give_no_nan(changes: dict[str, float]) -> None:
    session = _session(AdapterKind.LORA)
    _accumulate(session)
    _assert_step_is_refused_or_finite(session, replace(AdamParams(), **changes))


def test_a_huge_finite_gradient_does_not_freeze_the_weights_silently() -> None:
    session = _session(AdapterKind.LORA)
    _accumulate(session)
    session.optimizer.sums.total()[0].fill_(1e20)
    _assert_step_is_refused_or_finite(session, AdamParams())
