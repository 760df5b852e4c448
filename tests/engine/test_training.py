"""A training session: losses, threads, on-policy ratios, and calls that complete or change nothing."""

import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from oracles import (
    LLAMA,
    QWEN3,
    base_sha256,
    buffers_sha256,
    for_loss,
    gradients,
    make_adapter,
    make_datums,
    random_weights,
    reference_gradients,
    reference_model,
    relative_error,
    weights_sha256,
)
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.engine.validation import loss_by_name
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.ops import extension
from tinsmith.ops.functions import GivenGradient
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.objectives.losses import LOSSES
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import ConfigError, InputError, TinsmithError

pytestmark = pytest.mark.whole

KINDS = pytest.mark.parametrize("kind", list(AdapterKind))
LOSS_NAMES = pytest.mark.parametrize("loss", list(LossName))
SETTINGS: Mapping[LossName, Mapping[str, object]] = {
    **{loss: {} for loss in LossName},
    LossName.PPO: {"clip_low_threshold": 0.7, "clip_high_threshold": 1.5},
    LossName.DRO: {"beta": 0.05},
}
LENGTHS = (12, 1, 33, 5, 20)


def _session(kind: AdapterKind = AdapterKind.LORA, config: DecoderConfig = LLAMA, datums: int = 2) -> TrainingSession:
    adapter = make_adapter(config, AdapterSpec(kind=kind, rank=4, seed=5))
    return TrainingSession(adapter, micro_batches=MicroBatches(units=datums))


def _with(datum: Datum, **inputs: object) -> Datum:
    changed = {name: np.asarray(column) for name, column in inputs.items()}
    return replace(datum, inputs={**datum.inputs, **changed})


def _on_policy(session: TrainingSession, datums: Sequence[Datum]) -> list[Datum]:
    """The datums with the model's own log-probabilities as the sampler's."""
    requests = [for_loss(datum, LossName.CROSS_ENTROPY) for datum in datums]
    outputs = session.forward(requests, LossName.CROSS_ENTROPY).outputs
    return [_with(datum, logprobs=output.logprobs) for datum, output in zip(datums, outputs, strict=True)]


# Losses


def _formula(loss: LossName, p: np.ndarray, inputs: Mapping[str, np.ndarray]) -> float:
    """The published sum over one datum's tokens, in float64; `SETTINGS` apply."""
    zeros = np.zeros(len(p))
    w, q, a = (inputs.get(name, zeros) for name in ("weights", "logprobs", "advantages"))
    ratio = np.exp(np.where(a != 0, p - q, 0.0))
    match loss:
        case LossName.CROSS_ENTROPY:
            return float(-(w * p).sum())
        case LossName.IMPORTANCE_SAMPLING:
            return float(-(ratio * a).sum())
        case LossName.PPO:
            return float(-np.minimum(ratio * a, ratio.clip(0.7, 1.5) * a).sum())
        case LossName.CISPO:
            return float(-(ratio.clip(0.0, 4.0) * p * a).sum())
        case LossName.DRO:
            return float(-(p * a - 0.5 * 0.05 * (p - q) ** 2).sum())
        case LossName.GSPO:
            inside = inputs["sequence_ratio_mask"] != 0
            sequence_ratio = np.exp((p - q)[inside].mean())
            clipped = sequence_ratio.clip(0.8, 1.2)
            return float(-np.minimum(sequence_ratio * a, clipped * a).sum())


@KINDS
@LOSS_NAMES
def test_the_loss_is_its_formula_of_the_returned_logprobs(loss: LossName, kind: AdapterKind) -> None:
    session = _session(kind)
    datums = make_datums(LLAMA, LENGTHS, 2, loss)
    result = session.forward_backward(datums, loss, SETTINGS[loss])
    expected = [
        _formula(loss, output.logprobs.astype(np.float64), datum.inputs)
        for output, datum in zip(result.outputs, datums, strict=True)
    ]
    assert result.metrics["loss:sum"] == pytest.approx(math.fsum(expected), rel=1e-12)
    assert set(result.metrics) == {"loss:sum"} | {f"{name}:sum" for name in LOSSES[loss].metrics}
    assert all(math.isfinite(value) for value in result.metrics.values())


@LOSS_NAMES
def test_the_gradient_is_that_of_the_formula(loss: LossName) -> None:
    session = _session(AdapterKind.DORA)
    datums = make_datums(LLAMA, LENGTHS, 3, loss)
    result = session.forward_backward(datums, loss, SETTINGS[loss])
    slopes = iter([_slopes(loss, o.logprobs, d) for o, d in zip(result.outputs, datums, strict=True)])
    reference = reference_gradients(reference_model(session.adapter), datums, lambda p, _: (p * next(slopes)).sum())
    assert relative_error(gradients(session), reference) <= 1e-4


def _slopes(loss: LossName, logprobs: np.ndarray, datum: Datum) -> torch.Tensor:
    """d formula / d logprobs by central differences, with what is constant held constant."""
    p = logprobs.astype(np.float64)
    if loss is LossName.CISPO:
        a, q = datum.inputs["advantages"], datum.inputs["logprobs"]
        return torch.from_numpy(-np.exp(np.where(a != 0, p - q, 0.0)).clip(0.0, 4.0) * a)
    if loss is LossName.GSPO:
        a, q = datum.inputs["advantages"], datum.inputs["logprobs"]
        ratio = np.exp((p - q)[datum.inputs["sequence_ratio_mask"] != 0].mean())
        cut = ((a > 0) & (ratio > 1.2)) | ((a < 0) & (ratio < 0.8))
        return torch.from_numpy(np.where(cut, 0.0, -ratio * a))
    slopes = np.zeros(len(p))
    for t in range(len(p)):
        step = np.where(np.arange(len(p)) == t, 1e-5, 0.0)
        slopes[t] = _formula(loss, p + step, datum.inputs) - _formula(loss, p - step, datum.inputs)
    return torch.from_numpy(slopes / 2e-5)


@LOSS_NAMES
def test_forward_says_what_forward_backward_says(loss: LossName) -> None:
    session = _session(AdapterKind.DORA)
    datums = make_datums(LLAMA, LENGTHS, 4, loss)
    before = buffers_sha256(session)
    one = session.forward(datums, loss, SETTINGS[loss])
    assert buffers_sha256(session) == before
    two = session.forward_backward(datums, loss, SETTINGS[loss])
    assert one.metrics == two.metrics
    for first, second in zip(one.outputs, two.outputs, strict=True):
        np.testing.assert_array_equal(first.logprobs, second.logprobs)


@KINDS
def test_on_policy_the_ratio_is_literally_one(kind: AdapterKind) -> None:
    session = _session(kind)
    sampled = make_datums(LLAMA, LENGTHS, 5, LossName.IMPORTANCE_SAMPLING)
    datums = _on_policy(session, sampled)
    shuffled = [datums[i] for i in (3, 0, 4, 2, 1)]
    result = session.forward_backward(shuffled, LossName.IMPORTANCE_SAMPLING)
    advantages = math.fsum(x for d in datums for x in d.inputs["advantages"].tolist())
    assert result.metrics["tokens:sum"] == sum(LENGTHS)
    assert result.metrics["unequal_logprob_bits:sum"] == 0.0
    assert result.metrics["kl_sample_train_v1:sum"] == 0.0
    assert result.metrics["kl_sample_train_v2:sum"] == 0.0
    assert result.metrics["loss:sum"] == pytest.approx(-advantages, rel=1e-15)


@KINDS
def test_on_policy_every_ratio_loss_has_the_gradient_of_weighted_cross_entropy(kind: AdapterKind) -> None:
    shas: set[str] = set()
    for loss in (LossName.CROSS_ENTROPY, LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO, LossName.GSPO):
        session = _session(kind)
        datums = _on_policy(session, make_datums(LLAMA, LENGTHS, 5, LossName.GSPO))
        with_weights = [_with(d, weights=d.inputs["advantages"]) for d in datums]
        weighted = [for_loss(d, loss) for d in with_weights]
        session.forward_backward(weighted, loss, SETTINGS[loss])
        shas.add(buffers_sha256(session))
    assert len(shas) == 1


def test_a_weight_of_two_is_the_datum_twice() -> None:
    (datum,) = make_datums(LLAMA, (12,), 1)
    once, twice = _session(), _session()
    once.forward_backward([_with(datum, weights=datum.inputs["weights"] * 2)], LossName.CROSS_ENTROPY)
    twice.forward_backward([datum, datum], LossName.CROSS_ENTROPY)
    assert buffers_sha256(once) == buffers_sha256(twice)


# Threads


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    yield lambda count: extension.configure(threads=count)
    extension.configure()


@pytest.mark.parametrize("config", [LLAMA, QWEN3], ids=["llama", "qwen3"])
@KINDS
def test_threads_change_no_bit_of_three_steps(
    kind: AdapterKind, config: DecoderConfig, threads: Callable[[int], None]
) -> None:
    seen: set[tuple[str, str]] = set()
    # Wide enough for the kernels to share the work among threads.
    wide = replace(config, vocab_size=600, hidden_size=128, intermediate_size=320)
    weights = random_weights(wide, 1)
    for count in (1, 2, 3):
        threads(count)
        base = build_decoder(wide, weights, NativeKernels(), quantised=kind.quantised)
        session = TrainingSession(create_adapter(base, AdapterSpec(kind=kind, rank=8)))
        metrics: list[object] = []
        for step in range(3):
            datums = make_datums(wide, (40, 64, 7), 10 + step)
            metrics.append(session.forward_backward(datums, LossName.CROSS_ENTROPY).metrics)
            metrics.append(session.optim_step(AdamParams(learning_rate=1e-2, grad_clip_norm=1.0)))
        seen.add((weights_sha256(session.adapter), repr(metrics)))
    assert len(seen) == 1


# Complete or nothing


SAMPLED = LossName.IMPORTANCE_SAMPLING


def _good(count: int = 5, loss: LossName = SAMPLED) -> list[Datum]:
    return make_datums(LLAMA, LENGTHS[:count], 6, loss)


def _column(datum: Datum, name: str, at: int, value: float) -> Datum:
    column = datum.inputs[name].copy()
    column[at] = value
    return _with(datum, **{name: column})


def _last(change: Callable[[Datum], Datum]) -> list[Datum]:
    """Four good datums, and one that is changed: in the third micro-batch of two."""
    *good, last = _good()
    return [*good, change(last)]


BAD_BATCHES: dict[str, tuple[list[Datum], str]] = {
    "no_datum": ([], r"data = \[\]"),
    "no_token": (
        _last(lambda d: Datum(tokens=d.tokens[:0], inputs={n: c[:0] for n, c in d.inputs.items()})),
        r"data\[4\]\.model_input",
    ),
    "token_beyond_the_vocabulary": (
        _last(lambda d: replace(d, tokens=np.append(d.tokens[:-1], np.int32(97)))),
        r"data\[4\]\.model_input\[19\] = 97\n  allowed: 0 to 96",
    ),
    "negative_token": (
        _last(lambda d: replace(d, tokens=np.append(d.tokens[:-1], np.int32(-1)))),
        r"data\[4\]\.model_input\[19\] = -1\n  allowed: 0 to 96",
    ),
    "longer_than_the_context": (
        [*_good(4), *make_datums(LLAMA, (65,), 1, SAMPLED)],
        r"data\[4\]\.model_input = '65 tokens'\n  allowed: at most 64",
    ),
    "target_beyond_the_vocabulary": (
        _last(lambda d: _column(d, "target_tokens", 3, 97)),
        r"data\[4\]\.loss_fn_inputs\.target_tokens\[3\] = 97\n  allowed: 0 to 96",
    ),
    "targets_that_are_no_integers": (
        _last(lambda d: _with(d, target_tokens=d.inputs["target_tokens"].astype(np.float32))),
        r"data\[4\]\.loss_fn_inputs\.target_tokens = 'float32'\n  allowed: int32",
    ),
    "nan": (
        _last(lambda d: _column(d, "logprobs", 2, math.nan)),
        r"data\[4\]\.loss_fn_inputs\.logprobs\[2\] = nan\n  allowed: finite",
    ),
    "infinity": (
        _last(lambda d: _column(d, "advantages", 2, math.inf)),
        r"data\[4\]\.loss_fn_inputs\.advantages\[2\] = inf\n  allowed: finite",
    ),
    "another_length": (
        _last(lambda d: _with(d, advantages=d.inputs["advantages"][:-1])),
        r"data\[4\]\.loss_fn_inputs\.advantages = \(19,\)\n  allowed: \(20,\)",
    ),
    "a_missing_input": (
        _last(lambda d: replace(d, inputs={"target_tokens": d.inputs["target_tokens"]})),
        r"data\[4\]\.loss_fn_inputs\.(logprobs|advantages)",
    ),
    "an_input_of_another_loss": (_last(lambda d: _with(d, weights=np.ones(20))), r"data\[4\]\.loss_fn_inputs\.weights"),
    "a_loss_that_overflows": (
        _last(lambda d: _with(d, logprobs=np.full(20, -800.0), advantages=np.ones(20))),
        r"data\[4\]",
    ),
}


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QDORA, AdapterKind.FULL])
@pytest.mark.parametrize("case", BAD_BATCHES.values(), ids=list(BAD_BATCHES))
def test_a_call_that_cannot_complete_changes_nothing(case: tuple[list[Datum], str], kind: AdapterKind) -> None:
    datums, message = case
    session, unharmed = _session(kind), _session(kind)
    for each in (session, unharmed):
        each.forward_backward(_good(3), SAMPLED)
    before = buffers_sha256(session)
    for call in (session.forward_backward, session.forward):
        with pytest.raises(InputError, match=message):
            call(datums, SAMPLED)
        assert buffers_sha256(session) == before
    _assert_go_on_alike(session, unharmed)


def _assert_go_on_alike(session: TrainingSession, unharmed: TrainingSession) -> None:
    results = []
    for each in (session, unharmed):
        result = each.forward_backward(_good(), SAMPLED)
        norm = each.optim_step(AdamParams(learning_rate=1e-2))
        results.append((result.metrics, norm, weights_sha256(each.adapter)))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("loss", "settings", "message"),
    [
        (LossName.PPO, {"clip": 0.2}, r"loss_fn_config\.clip = 0.2\n  allowed: clip_low_threshold"),
        (LossName.CROSS_ENTROPY, {"beta": 1.0}, r"loss_fn_config\.beta = 1.0\n  allowed: none"),
        (LossName.DRO, {}, r"loss_fn_config\.beta"),
        (LossName.DRO, {"beta": math.nan}, r"loss_fn_config\.beta = nan\n  allowed: >= 0"),
        (LossName.PPO, {"clip_low_threshold": 1.3}, r"clip_high_threshold = 1.2\n  allowed: >= "),
        (LossName.PPO, {"clip_high_threshold": "1.2"}, r"'1.2'\n  allowed: a number"),
    ],
)
def test_a_setting_that_the_loss_does_not_take_is_named(
    loss: LossName, settings: dict[str, object], message: str
) -> None:
    session = _session()
    session.forward_backward(_good(2), SAMPLED)
    before = buffers_sha256(session)
    with pytest.raises(ConfigError, match=message):
        session.forward_backward(_good(5, loss), loss, settings)
    assert buffers_sha256(session) == before


@pytest.mark.parametrize("name", ["stable_reinforce", "crossentropy", "", "PPO"])
def test_an_unknown_loss_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InputError, match=rf"loss_fn = '{name}'\n  allowed: cross_entropy, "):
        loss_by_name(name)
    assert {loss_by_name(loss.value) for loss in LossName} == set(LossName)


class _Failing(NativeKernels):
    """Kernels that fail at the n-th product of a weight's gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 1 << 30
        self.error: BaseException = RuntimeError("out of memory")

    def grad_gemm(self, a: torch.Tensor, b: torch.Tensor, segments: torch.Tensor, into: torch.Tensor) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.error
        super().grad_gemm(a, b, segments, into)


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.DORA, AdapterKind.FULL])
@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_of_a_later_micro_batch_changes_nothing(
    kind: AdapterKind, error: BaseException
) -> None:
    kernels = _Failing()
    kernels.error = error
    base = build_decoder(LLAMA, random_weights(LLAMA, 1), kernels)
    sessions = [
        TrainingSession(create_adapter(base, AdapterSpec(kind=kind, rank=4)), micro_batches=MicroBatches(units=2))
        for _ in range(2)
    ]
    session, unharmed = sessions
    for each in sessions:
        each.forward_backward(_good(3), SAMPLED)
    before = buffers_sha256(session)
    products = (1 << 30) - kernels.left
    # Two micro-batches a call and two calls were just done: this is half a call, and then a bit.
    kernels.left = products // 4 + 3
    with pytest.raises(type(error)):
        session.forward_backward(_good(), SAMPLED)
    assert kernels.left == -1
    kernels.left = 1 << 30
    assert buffers_sha256(session) == before
    _assert_go_on_alike(session, unharmed)


def test_training_never_touches_a_datum() -> None:
    datums = _good(5, LossName.GSPO)
    for datum in datums:
        datum.tokens.setflags(write=False)
        for column in datum.inputs.values():
            column.setflags(write=False)
    session = _session(AdapterKind.DORA)
    base = base_sha256(session.adapter.decoder)
    session.forward_backward(datums, LossName.GSPO)
    session.optim_step(AdamParams())
    assert base_sha256(session.adapter.decoder) == base


def test_returned_logprobs_are_the_callers_own() -> None:
    session = _session()
    first, second = session.forward(_good(2), SAMPLED).outputs
    kept = second.logprobs.copy()
    first.logprobs[:] = 0.0
    session.forward_backward(_good(2), SAMPLED)
    np.testing.assert_array_equal(second.logprobs, kept)


# What a request may hold by mistake must be refused, not converted or let through.


MISTAKEN: dict[str, list[Datum]] = {
    "fractional_tokens": _last(lambda d: replace(d, tokens=d.tokens + 0.5)),
    "nan_tokens": _last(lambda d: replace(d, tokens=np.full(20, math.nan))),
    "text": _last(lambda d: _with(d, advantages=np.array(["a"] * 20))),
}


@pytest.mark.parametrize("datums", MISTAKEN.values(), ids=list(MISTAKEN))
def test_numbers_of_another_kind_are_refused(datums: list[Datum]) -> None:
    with pytest.raises(TinsmithError):
        _session().forward(datums, SAMPLED)


def test_a_gradient_that_overflows_is_not_added() -> None:
    session = _session()
    session.forward_backward(_good(2), SAMPLED)
    datums = _good(1, LossName.CROSS_ENTROPY)
    huge = [_with(d, weights=np.full(len(d), 1e38)) for d in datums]
    with pytest.raises(InputError):
        session.forward_backward(huge, LossName.CROSS_ENTROPY)
    session.optim_step(AdamParams())


def test_a_step_imports_no_computer_algebra() -> None:
    """torch does, for a gradient given to `backward`: most of a second of every first step."""
    program = """
import sys
import numpy as np
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.datum import Datum, LossName
config = PRESETS["nano"]
decoder = build_decoder(config, initial_weights(config, 0), NativeKernels())
tokens = np.arange(5, dtype=np.int32)
session = TrainingSession(create_adapter(decoder, AdapterSpec(rank=4)))
session.forward_backward([Datum(tokens=tokens, inputs={"target_tokens": tokens})], LossName.CROSS_ENTROPY)
print("sympy" in sys.modules)
"""
    lines = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert lines.stdout.strip() == "False"


def test_a_given_gradient_has_the_bits_that_were_given() -> None:
    given = torch.tensor([1e-45, -0.0, 3.3, -1e30])
    x = torch.zeros(4, requires_grad=True)
    GivenGradient.apply(x, given).backward()
    assert x.grad.numpy().tobytes() == given.numpy().tobytes()
