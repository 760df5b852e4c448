"""Mixtures of experts: one model for sampler and trainer, whatever the batch, and routes that both record alike."""

from itertools import product

import numpy as np
import pytest
import torch
from mixtures import CONFIGS, OF_KINDS, forked, mixture_adapter, mixture_decoder, scored

from oracles import buffers_sha256, random_weights
from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.checks import certificate
from tinsmith.engine.checks.certificate import certify
from tinsmith.engine.checks.checked_mixtures import mixtures, near_ties
from tinsmith.engine.parts import SOUND
from tinsmith.engine.sampled_routes import SampledRoutes
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.routes import RouteRecord, RouteSums, route_metrics
from tinsmith.models.steps import TrainSteps
from tinsmith.ops.extension import configure
from tinsmith.ops.forest import Forest
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.routing import Routes, Routing
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import AdamParams, LossName
from tinsmith.types.errors import DeterminismError
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
    requests = _requests(config, 6)
    chosen = [policies[i % 3] for i in range(6)]
    together = Sampler(config, base.kernels).sample(requests, chosen)
    for request, own, result in zip(requests, chosen, together, strict=True):
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


LEAST_TOKENS = 1_000
"""Of each of ten cases."""


def _ragged(config: DecoderConfig) -> list[SampleRequest]:
    """Ragged prompts of 1 to 90 tokens, groups of 1 to 8, 5 to 40 new tokens."""
    rng = np.random.default_rng(11)
    return [
        SampleRequest(
            prompt=rng.integers(0, config.vocab_size, int(rng.integers(1, 91))).astype(np.int32),
            params=SamplingParams(seed=i, max_tokens=int(rng.integers(5, 41)), stop=()),
            num_samples=(1, 2, 8)[i % 3],
        )
        for i in range(9)
    ]


@pytest.mark.parametrize(("config", "kind"), OF_KINDS.values(), ids=OF_KINDS)
def test_a_sampled_token_has_the_trainers_bits_and_routes(config: DecoderConfig, kind: AdapterKind) -> None:
    router = kind in (AdapterKind.DORA, AdapterKind.QLORA)
    few = 1 if kind is AdapterKind.LORA and config is CONFIGS["olmoe"] else 7
    adapter = mixture_adapter(config, kind, train_router=router)
    question = _ragged(config)
    tokens = unequal_bits = unequal_routes = 0
    seen: set[bytes] = set()
    for threads, limits, micro_batches, unit in (
        (1, SamplerLimits(max_samples=64), MicroBatches(), GradientUnit.TREE),
        (2, SamplerLimits(max_samples=few, prefill_tokens=50), MicroBatches(units=1), GradientUnit.DATUM),
    ):
        configure(threads=threads)
        sampler = Sampler(config, adapter.decoder.kernels, limits=limits)
        results = sampler.sample(question, [Policy(adapter.decoder, adapter.low)] * len(question))
        pairs = [(r, s) for r, result in zip(question, results, strict=True) for s in result.sequences]
        session = TrainingSession(adapter, micro_batches, unit)
        data = [scored(np.concatenate([r.prompt, s.tokens])) for r, s in pairs]
        outputs = session.forward(data, LossName.CROSS_ENTROPY).outputs
        for (request, sequence), output in zip(pairs, outputs, strict=True):
            own = output.logprobs[len(request.prompt) - 1 :]
            unequal_bits += int((own.view(np.int32) != sequence.logprobs.view(np.int32)).sum())
            assert sequence.routes is not None
            unequal_routes += int((output.routes != sequence.routes).sum())
            tokens += len(own)
        seen.add(b"".join(s.tokens.tobytes() + s.logprobs.tobytes() for _, s in pairs))
    configure(threads=1)
    assert tokens >= LEAST_TOKENS
    assert (unequal_bits, unequal_routes, len(seen)) == (0, 0, 1)


def _groups_of_three(config: DecoderConfig) -> list[SampleRequest]:
    rng = np.random.default_rng(3)
    return [
        SampleRequest(
            prompt=rng.integers(0, config.vocab_size, n).astype(np.int32),
            params=SamplingParams(seed=i, max_tokens=12, stop=()),
            num_samples=3,
        )
        for i, n in enumerate((2, 19, 40))
    ]


@EACH
def test_sampler_and_trainer_route_alike_until_the_weights_change(config: DecoderConfig) -> None:
    adapter = mixture_adapter(config, AdapterKind.LORA)
    kept = SampledRoutes()
    session = TrainingSession(adapter, sampled=kept)
    policy = Policy(adapter.decoder, adapter.low)
    fed: list[np.ndarray] = []
    for limits in (SamplerLimits(), SamplerLimits(max_samples=2, prefill_tokens=7)):
        calls = _groups_of_three(config)
        sampler = Sampler(config, adapter.decoder.kernels, limits=limits)
        results = sampler.sample(calls, [policy] * len(calls))
        for request, result in zip(calls, results, strict=True):
            kept.keep(request, result)
            fed += [np.concatenate([request.prompt, s.tokens]) for s in result.sequences]
    data = [scored(tokens) for tokens in fed]
    for size, unit in product((1, 1 << 30), GradientUnit):
        session.micro_batches, session.gradient_unit = MicroBatches(units=size), unit
        metrics = session.forward(data, LossName.CROSS_ENTROPY).metrics
        assert metrics["e_unequal_routes:sum"] == 0
        assert metrics["e_compared_routes:sum"] == sum(len(datum.tokens) for datum in data)
    session.forward_backward(data, LossName.CROSS_ENTROPY)
    session.optim_step(AdamParams(learning_rate=0.1))
    metrics = session.forward(data, LossName.CROSS_ENTROPY).metrics
    assert metrics["e_unequal_routes:sum"] > 0


def test_what_was_sampled_elsewhere_is_not_compared_and_the_oldest_is_forgotten() -> None:
    config = CONFIGS["olmoe"]
    adapter = mixture_adapter(config, AdapterKind.LORA)
    asked = _groups_of_three(config)
    sampler = Sampler(config, adapter.decoder.kernels)
    results = sampler.sample(asked, [Policy(adapter.decoder, adapter.low)] * 3)
    last = 3 * (40 + 11)
    kept = SampledRoutes(most=last)
    for request, result in zip(asked, results, strict=True):
        kept.keep(request, result)
        kept.keep(request, result)
    session = TrainingSession(adapter, sampled=kept)
    data = [
        scored(np.concatenate([request.prompt, s.tokens]))
        for request, result in zip(asked, results, strict=True)
        for s in result.sequences
    ]
    metrics = session.forward(data, LossName.CROSS_ENTROPY).metrics
    assert metrics["e_compared_routes:sum"] == last
    dense = TrainingSession(mixture_adapter(config, AdapterKind.LORA), sampled=None)
    assert "e_compared_routes:sum" not in dense.forward(data, LossName.CROSS_ENTROPY).metrics


@EACH
def test_loads_and_entropies_are_those_of_the_routers(config: DecoderConfig) -> None:
    """Against every row's own experts, and the entropy by fp64."""
    decoder = mixture_decoder(config)
    seen: list[tuple[int, torch.Tensor, torch.Tensor]] = []

    class Spy(RouteRecord):
        def see(self, layer: int, logits: torch.Tensor, routes: Routes) -> None:
            seen.append((layer, logits, routes.experts))
            super().see(layer, logits, routes)

    made = RouteRecord.of(decoder, loads=True)
    record = Spy(made.loads, made.entropies, made.kernels)
    ids = torch.arange(60) % config.vocab_size
    with torch.no_grad():
        steps = TrainSteps(decoder.kernels, Forest.whole([25, 35]), {}, record)
        decoder.hidden(steps, ids)
    sums = record.sums(60)
    sparse = [n for n in range(config.num_layers) if config.sparse(n)]
    assert [layer for layer, _, _ in seen] == sparse
    for layer, logits, experts in seen:
        expected = torch.bincount(experts.flatten(), minlength=config.mixture.num_experts)
        assert sums.loads[layer].tolist() == expected.tolist()
        entropy = torch.special.entr(torch.softmax(logits.double(), 1)).sum()
        assert abs(sums.entropies[layer] / 2**24 - float(entropy)) < 1e-4 * 60
    metrics = route_metrics(sums, config.mixture)
    loads = sums.loads[sparse]
    fair = 60 * config.mixture.num_active / config.mixture.num_experts
    assert metrics["e_frac_with_tokens:mean"] == (loads > 0).mean()
    assert metrics["e_frac_oversubscribed:mean"] == (loads > fair).mean()
    assert metrics["e_max_violation:mean"] == pytest.approx((loads.max(1) / fair - 1).mean())
    assert metrics["e_max_violation:max"] == pytest.approx((loads.max() / fair) - 1)
    assert metrics["e_min_violation:mean"] == pytest.approx((loads.min(1) / fair - 1).mean())
    assert 0 < metrics["e_router_entropy:mean"] <= 1
    lines = [value for name, value in metrics.items() if name.startswith("e_tokens/")]
    assert lines == loads.flatten().tolist()


@EACH
def test_figures_do_not_depend_on_micro_batches_or_threads(config: DecoderConfig) -> None:
    data = forked(config, 4)
    found: set[str] = set()
    for threads, size in ((1, 1), (2, 2), (2, 1 << 30)):
        configure(threads=threads)
        session = TrainingSession(mixture_adapter(config, AdapterKind.DORA), MicroBatches(units=size))
        metrics = session.forward(data, LossName.CROSS_ENTROPY).metrics
        found.add(repr(sorted((n, v) for n, v in metrics.items() if n.startswith("e_"))))
    assert len(found) == 1


def test_a_mixture_of_many_experts_tells_no_single_ones_load() -> None:
    mixture = CONFIGS["olmoe"].mixture
    assert mixture is not None
    sums = RouteSums(5, np.ones((40, 24), np.int64), np.ones(40, np.int64))
    assert not [name for name in route_metrics(sums, mixture) if name.startswith("e_tokens/")]


@EACH
def test_a_certificate_holds_and_its_rows_all_but_tie(config: DecoderConfig) -> None:
    decoder = mixture_decoder(config)
    found = certify(decoder)
    assert found.holds
    assert {"routes near a tie", "mixture near a tie"} <= {c.op for c in found.checks}
    layer = next(layer for layer in decoder.layers if layer.router is not None)
    routing = Routing(active=config.mixture.num_active, normalised=config.mixture.normalised)
    rows = near_ties(decoder, layer, routing)
    logits = (rows.double() @ layer.router.weight(decoder.kernels).double()).sort(1, True).values
    apart = logits[:, routing.active - 1] - logits[:, routing.active]
    assert float(apart.max()) < 1e-5


def test_a_dense_model_has_nothing_of_a_mixture_checked() -> None:
    from oracles import LLAMA, small_decoder

    assert list(mixtures(small_decoder(LLAMA, quantised=False), SOUND)) == []


class _Drifting(NativeKernels):
    """The router's product of many rows is off by an ulp or so."""

    def gemm(self, a: torch.Tensor, b: torch.Tensor, *, into: torch.Tensor | None = None) -> torch.Tensor:
        c = super().gemm(a, b, into=into)
        if b.shape[1] == 8 and a.shape[0] > 5 and into is None:
            c *= 1.0 + 2.0**-23 * (torch.arange(8) % 3)
        return c


def test_a_router_that_depends_on_the_batch_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIGS["qwen3_moe"]
    decoder = build_decoder(config, random_weights(config, 1), _Drifting())
    assert [check.op for check in mixtures(decoder, SOUND) if check.patterns > 1]
    monkeypatch.setattr(certificate, "CHECKS", (mixtures,))
    with pytest.raises(DeterminismError):
        certify(decoder)
