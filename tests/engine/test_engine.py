"""The engine as a whole: names, folders, stop strings, sessions that do not touch each other."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from emulated import Emulation, emulated

import tinsmith.engine.engine as engine_module
from models import CONFIG, small_decoder
from tinsmith.engine.checks.certificate import certify
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.trace import Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.slots import values
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import BackendError, ConfigError, InputError
from tinsmith.types.sampling import SampleRequest, SamplingParams, StopReason

pytestmark = pytest.mark.whole

PROMPT = np.arange(5, 14, dtype=np.int32)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("models") / "small"
    write_folder(folder, CONFIG, initial_weights(CONFIG, 3))
    return Engine({"nano": "tinsmith/nano", "small": str(folder)})


def ask(engine: Engine, name: str, **params: object) -> list[int]:
    settings = {"seed": 0, "max_tokens": 12, "stop": (), **params}
    request = SampleRequest(prompt=PROMPT, params=SamplingParams(**settings))  # pyright: ignore[reportArgumentType]
    return engine.sample(name, [request], [engine.base_policy(name)])[0].sequences[0].tokens.tolist()


def test_every_model_has_a_certificate_that_holds(engine: Engine) -> None:
    assert set(engine.certificates) == {"nano", "small"}
    assert all(certificate.holds for certificate in engine.certificates.values())


def test_an_unknown_model_names_the_served_ones(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="nano, small"):
        engine.create_session("no/such", AdapterSpec())


def test_a_path_that_is_no_folder_is_refused_without_asking_a_hub(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Engine({"x": str(tmp_path / "nothing")})


def test_a_stop_string_is_found_in_the_tokenizers_text(engine: Engine) -> None:
    text = preset_tokenizer("nano")
    free = ask(engine, "nano", max_tokens=60)
    letters = str(text.decode(free))
    wanted = letters[len(letters) // 2]
    request = SampleRequest(prompt=PROMPT, params=SamplingParams(seed=0, max_tokens=60, stop=(wanted,)))
    found = engine.sample("nano", [request], [engine.base_policy("nano")])[0].sequences[0]
    assert found.stop_reason is StopReason.STOP
    assert wanted in str(text.decode(found.tokens.tolist()))
    assert wanted not in str(text.decode(found.tokens.tolist()[:-1]))


def test_stop_strings_need_a_tokenizer(engine: Engine) -> None:
    with pytest.raises(InputError, match="tokenizer"):
        ask(engine, "small", stop=("x",))


@pytest.mark.parametrize("kind", list(AdapterKind))
def test_a_session_changes_neither_the_base_nor_another_session_nor_a_frozen_policy(
    engine: Engine, kind: AdapterKind
) -> None:
    data = [Datum(tokens=PROMPT[:-1], inputs={"target_tokens": PROMPT[1:]})]
    first, second = (engine.create_session("small", AdapterSpec(kind=kind, rank=2, seed=s)) for s in (0, 1))
    base, other, frozen = ask(engine, "small"), freeze(second), freeze(first)
    request = SampleRequest(prompt=PROMPT, params=SamplingParams(seed=4, max_tokens=20, stop=()))
    before = engine.sample("small", [request, request], [frozen, other])
    for _ in range(3):
        first.forward_backward(data, LossName.CROSS_ENTROPY)
        first.optim_step(AdamParams(learning_rate=0.05))
    after = engine.sample("small", [request, request, request], [frozen, other, freeze(first)])
    logprobs = [r.sequences[0].logprobs.tobytes() for r in (*before, *after)]
    assert logprobs[0] == logprobs[2]
    assert logprobs[1] == logprobs[3]
    assert logprobs[4] != logprobs[2]
    assert ask(engine, "small") == base


def test_what_is_not_computed_here_is_refused_in_one_line() -> None:
    for arithmetic, device in ((Arithmetic.CANONICAL, "cuda"), (Arithmetic.INVARIANT, "cpu")):
        with pytest.raises(BackendError) as error:
            Engine({"nano": "tinsmith/nano"}, arithmetic=arithmetic, device=device)
        assert len(str(error.value).splitlines()) == 1


def test_fast_samples_and_trains_close_to_canonical(engine: Engine) -> None:
    fast = Engine({"nano": "tinsmith/nano"}, arithmetic=Arithmetic.FAST)
    data = [Datum(tokens=PROMPT[:-1], inputs={"target_tokens": PROMPT[1:]})]
    results = []
    for each in (engine, fast):
        session = each.create_session("nano", AdapterSpec(kind=AdapterKind.DORA, rank=4))
        for _ in range(3):
            session.forward_backward(data, LossName.CROSS_ENTROPY)
            session.optim_step(AdamParams(learning_rate=1e-2))
        results.append(session.forward(data, LossName.CROSS_ENTROPY).outputs[0].logprobs)
    np.testing.assert_allclose(results[0], results[1], atol=2e-3)
    assert len(ask(fast, "nano")) == 12


NORMED = replace(CONFIG, family=Family.QWEN3, qk_norm=True, tied=False, num_layers=1)
MIXTURE = replace(
    NORMED, family=Family.QWEN3_MOE, mixture=Mixture(num_experts=5, num_active=2, expert_size=24, normalised=True)
)
CASES: Mapping[str, tuple[DecoderConfig, AdapterKind, torch.dtype]] = {
    "LoRA": (CONFIG, AdapterKind.LORA, torch.float32),
    "QDoRA": (CONFIG, AdapterKind.QDORA, torch.float32),
    "DoRA on a base in bf16": (CONFIG, AdapterKind.DORA, torch.bfloat16),
    "all weights of a base in bf16": (CONFIG, AdapterKind.FULL, torch.bfloat16),
    "all weights, tied head": (replace(CONFIG, num_layers=1), AdapterKind.FULL, torch.float32),
    "all weights, normed heads, free head": (NORMED, AdapterKind.FULL, torch.float32),
    "DoRA on a mixture": (MIXTURE, AdapterKind.DORA, torch.float32),
    "QLoRA on a mixture": (MIXTURE, AdapterKind.QLORA, torch.float32),
    "all weights of a mixture": (MIXTURE, AdapterKind.FULL, torch.float32),
}
"""Models, what of them is trained, and the type that their bases are published in."""


def steps_of(kernels: Kernels, config: DecoderConfig, kind: AdapterKind, published: torch.dtype) -> list[object]:
    """Two RL steps of samples that share their prompt: every figure on the way."""
    decoder = small_decoder(kernels, config=config, quantised=kind.quantised, bf16=published is torch.bfloat16)
    spec = AdapterSpec(kind=kind, seed=3) if kind is AdapterKind.FULL else AdapterSpec(kind=kind, rank=4, seed=3)
    session = TrainingSession(create_adapter(decoder, spec), trace=Trace(kernels, marks_units=True))
    prompt = np.random.default_rng(7).integers(1, config.vocab_size, 21).astype(np.int32)
    found: list[object] = []
    for step in range(2):
        frozen = session.adapter.snapshot()
        params = SamplingParams(seed=step, max_tokens=6, stop=(), top_p=0.9 if step else 1.0)
        request = SampleRequest(prompt=prompt, params=params, num_samples=3, topk_logprobs=2, prompt_logprobs=True)
        sampler = Sampler(config, kernels)
        (result,) = sampler.sample([request], [Policy(frozen.decoder, frozen.low)])
        assert result.prompt_logprobs is not None
        sampled = [x for s in result.sequences for x in (s.tokens, s.logprobs)]
        found += [(x + 0).tobytes() for x in (result.prompt_logprobs[1:], *sampled)]  # -0.0 is +0.0
        data = [
            Datum.sampled(np.concatenate([prompt, s.tokens]), s.logprobs, (-1.0) ** i)
            for i, s in enumerate(result.sequences)
        ]
        back = session.forward_backward(data, LossName.IMPORTANCE_SAMPLING)
        assert all(
            np.array_equal(o.logprobs[20:], s.logprobs) for o, s in zip(back.outputs, result.sequences, strict=True)
        )
        found.append(sorted(back.metrics.items()))
        found.append(session.optim_step(AdamParams(learning_rate=1e-2)))
        held = values(session.adapter.slots)
        found += [(held[name] + 0).numpy().tobytes() for name in sorted(held)]
    assert session.trace is not None
    found.append(session.trace.steps)
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_samples_gradients_and_weights_are_the_native_ones(
    case: tuple[DecoderConfig, AdapterKind, torch.dtype],
) -> None:
    backend = Emulation()
    assert steps_of(CudaKernels(backend), *case) == steps_of(NativeKernels(), *case)
    if case == CASES["DoRA on a base in bf16"]:  # and it is held so
        assert backend.launched >= {"few_4_bf16", "gemm_nn_bf16_small", "gemm_nt_bf16_small"}


def test_a_model_that_cannot_fit_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Emulation(free=1 << 20)
    monkeypatch.setattr(engine_module, "select", lambda *_: CudaKernels(backend))
    with pytest.raises(BackendError, match=r"nano would take at least 0\.0 GiB, and 0\.0 GiB are free") as refused:
        Engine({"nano": "tinsmith/nano"}, device="cuda")
    assert len(str(refused.value).splitlines()) == 1
    assert not backend.launched


def test_the_certificate_is_the_native_one() -> None:
    torch.set_num_threads(1)
    heads = {"num_heads": 2, "num_kv_heads": 1, "num_layers": 1}
    small = replace(CONFIG, hidden_size=24, intermediate_size=40, vocab_size=40, max_positions=128, **heads)
    ours, theirs = (certify(small_decoder(kernels, config=small)) for kernels in (NativeKernels(), emulated()))
    assert ours.sha256 == theirs.sha256
