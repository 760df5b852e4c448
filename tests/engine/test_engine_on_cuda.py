"""A whole engine on the emulated grid: certificate, samples, training of every kind; every figure is the native one."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from emulated import Emulation, emulated

import tinsmith.engine.engine as engine_module
from models import CONFIG, small_decoder
from tinsmith.engine.checks import certificate
from tinsmith.engine.engine import Engine
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.trace import Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.slots import values
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import BackendError
from tinsmith.types.sampling import SampleRequest, SamplingParams

pytestmark = pytest.mark.whole

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


def test_the_certificate_is_the_native_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # Sampler and trainer, the last check, are compared above, and are most of the time here.
    monkeypatch.setattr(certificate, "CHECKS", certificate.CHECKS[:-1])
    torch.set_num_threads(1)
    heads = {"num_heads": 2, "num_kv_heads": 1, "num_layers": 1}
    small = replace(CONFIG, hidden_size=24, intermediate_size=40, vocab_size=40, max_positions=128, **heads)
    ours, theirs = (
        certificate.certify(small_decoder(kernels, config=small)) for kernels in (NativeKernels(), emulated())
    )
    assert ours.sha256 == theirs.sha256
