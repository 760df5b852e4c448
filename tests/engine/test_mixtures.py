"""Mixtures of experts: one model for sampler and trainer, and gradients that no batch, thread or neighbour changes."""

import numpy as np
import pytest
import torch
from mixtures import CONFIGS, OF_KINDS, forked, mixture_adapter, scored

from oracles import buffers_sha256
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.config import DecoderConfig
from tinsmith.ops.extension import configure
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.datum import AdamParams, LossName
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams

pytestmark = pytest.mark.whole

EACH = pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))


def _requests(config: DecoderConfig, count: int) -> list[SampleRequest]:
    rng = np.random.default_rng(3)
    return [
        SampleRequest(
            prompt=rng.integers(0, config.vocab_size, int(rng.integers(1, 60))).astype(np.int32),
            params=SamplingParams(seed=i, max_tokens=int(rng.integers(5, 40)), stop=()),
            num_samples=int(rng.choice([1, 2, 8])),
        )
        for i in range(count)
    ]


def _bits(results: list[SampleResult]) -> bytes:
    return b"".join(s.tokens.tobytes() + s.logprobs.tobytes() for r in results for s in r.sequences)


@pytest.mark.parametrize(("config", "kind"), OF_KINDS.values(), ids=OF_KINDS)
def test_a_gradient_has_one_hash_however_it_is_computed(config: DecoderConfig, kind: AdapterKind) -> None:
    data = forked(config, 1)
    found: set[tuple[str, str]] = set()
    recomputed = MicroBatches(rows=1, memory=0)
    every = (MicroBatches(), MicroBatches(units=1), MicroBatches(units=2), MicroBatches(), recomputed)
    for threads, how in zip((1, 1, 2, 2, 2), every, strict=True):
        configure(threads=threads)
        adapter = mixture_adapter(config, kind)
        session = TrainingSession(adapter, how)
        metrics = [session.forward_backward(part, LossName.CROSS_ENTROPY).metrics for part in (data[:6], data[6:])]
        found.add((buffers_sha256(session), repr([sorted(one.items()) for one in metrics])))
    assert len(found) == 1


@EACH
def test_a_batch_may_mix_adapters(config: DecoderConfig) -> None:
    adapters = [mixture_adapter(config, kind) for kind in (AdapterKind.LORA, AdapterKind.DORA)]
    base = adapters[0].decoder
    policies = [Policy(base, {}), *[Policy(base, a.low) for a in adapters]]
    asked = _requests(config, 6)
    chosen = [policies[i % 3] for i in range(6)]
    together = Sampler(config, base.kernels).sample(asked, chosen)
    for request, own, result in zip(asked, chosen, together, strict=True):
        alone = Sampler(config, base.kernels).sample([request], [own])
        assert _bits(alone) == _bits([result])


@EACH
def test_a_router_is_frozen_unless_it_is_to_be_trained(config: DecoderConfig) -> None:
    frozen = mixture_adapter(config, AdapterKind.LORA)
    trained = mixture_adapter(config, AdapterKind.LORA, train_router=True)
    sparse = sum(config.sparse(n) for n in range(config.num_layers))
    assert not [name for name in frozen.targets if name.endswith("mlp.gate")]
    assert len([name for name in trained.targets if name.endswith("mlp.gate")]) == sparse
    session = TrainingSession(trained)
    session.forward_backward(forked(config, 2), LossName.CROSS_ENTROPY)
    found = session.optimizer.gradient()
    for name in trained.targets:
        if name.endswith("mlp.gate"):
            assert float(found[f"{name}.lora_A.weight"].abs().max()) > 0


@EACH
def test_an_expert_without_a_token_has_an_exact_zero(config: DecoderConfig) -> None:
    adapter = mixture_adapter(config, AdapterKind.LORA)
    session = TrainingSession(adapter)
    session.forward_backward([scored(np.array([5, 6, 7], np.int32))], LossName.CROSS_ENTROPY)
    assert config.mixture is not None
    idle = 0
    for name, grad in session.optimizer.gradient().items():
        if ".experts." in name:
            idle += not grad.any()
    assert idle > 0
    before = {s.name: s.value for s in adapter.slots}
    session.optim_step(AdamParams(learning_rate=1e-2))
    moved = sum(not torch.equal(before[s.name], s.value) for s in adapter.slots)
    assert 0 < moved < len(adapter.slots)
