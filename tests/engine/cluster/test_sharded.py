"""A sharded base says and learns what an unsharded one does, bit for bit, and its stages keep nothing for long."""

import gc
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from staged import spread, stages_of

from gguf_files import VOCAB, write_gguf
from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.checks.certificate import certify
from tinsmith.engine.cluster.sharded import ShardedDecoder, ShardedPool
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.base import stored_base
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.models.slots import values
from tinsmith.models.stages import cut_layers, standing_alone
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import BackendError, ConfigError, InputError
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams

pytestmark = pytest.mark.whole

NANO = replace(PRESETS["nano"], vocab_size=131, hidden_size=64, intermediate_size=160, head_dim=16, max_positions=128)
QWEN = replace(NANO, family=Family.QWEN3, qk_norm=True, qkv_bias=True, num_layers=3, tied=False, vocab_size=101)
MOE = replace(
    NANO,
    family=Family.QWEN3_MOE,
    qk_norm=True,
    num_layers=3,
    vocab_size=101,
    mixture=Mixture(num_experts=6, num_active=2, expert_size=24, normalised=True, dense_layers=(1,)),
)
TRAINED = {
    **{f"nano-{kind}": (NANO, kind) for kind in AdapterKind if kind is not AdapterKind.FULL},
    **{f"qwen3-{kind}": (QWEN, kind) for kind in (AdapterKind.LORA, AdapterKind.QDORA)},
    **{f"mixture-{kind}": (MOE, kind) for kind in (AdapterKind.DORA, AdapterKind.QLORA)},
}
HOW = {1: MicroBatches(), 2: MicroBatches(rows=90), 3: MicroBatches(units=1)}
"""By number of shards."""
LIMITS = (SamplerLimits(), SamplerLimits(max_samples=2, prefill_tokens=7, cache_pages=30))


@cache
def weights_of(config: DecoderConfig) -> dict[str, torch.Tensor]:
    drawn = initial_weights(config, 0)
    return {name: t * 4 if t.ndim == 2 else t for name, t in drawn.items()}


def whole(config: DecoderConfig, kind: AdapterKind) -> Decoder:
    return build_decoder(config, weights_of(config), NativeKernels(), quantised=kind.quantised)


def over(config: DecoderConfig, kind: AdapterKind, shards: int) -> ShardedDecoder:
    return spread(config, weights_of(config), shards, quantised=kind.quantised)


def conversations(config: DecoderConfig) -> list[Datum]:
    """Seven datums: a tree of four that fork twice, one that ends within it, two that share nothing."""
    rng = np.random.default_rng(0)

    def some(count: int) -> np.ndarray:
        return rng.integers(1, config.vocab_size, count).astype(np.int32)

    stem = some(20)
    turns = [np.concatenate([stem, some(9)]) for _ in range(2)]
    found = [np.concatenate([turn, some(n)]) for turn in turns for n in (3, 17)]
    found += [turns[0][:24], some(31), some(2)]
    return [
        Datum(
            tokens=tokens[:-1],
            inputs={"target_tokens": tokens[1:], "weights": rng.standard_normal(len(tokens) - 1).astype(np.float32)},
        )
        for tokens in found
    ]


def session(decoder: Decoder, kind: AdapterKind, how: MicroBatches | None = None, seed: int = 1) -> TrainingSession:
    adapter = create_adapter(decoder, AdapterSpec(kind=kind, rank=4, seed=seed))
    return TrainingSession(adapter, micro_batches=how or MicroBatches())


def two_steps(trained: TrainingSession, *, failing: bool = False) -> list[str]:
    """The hash of everything that two steps come to: what is said, gradients, norms of them, weights."""
    data = conversations(trained.adapter.decoder.config)
    found: list[str] = []
    for part in (data, data[2:]):
        if failing:
            fail(trained)
        words = trained.forward(part, LossName.CROSS_ENTROPY)
        learned = trained.forward_backward(part, LossName.CROSS_ENTROPY)
        for result in (words, learned):
            found.append(digest({str(i): o.logprobs for i, o in enumerate(result.outputs)}))
        total = trained.optimizer.sums.total()
        found.append(digest({f"{i:03d}": grad.numpy() for i, grad in enumerate(total)}))
        found.append(str(trained.optim_step(AdamParams(learning_rate=5e-3))))
        found.append(weights_sha256(trained.adapter))
    return found


def a_step(trained: TrainingSession) -> None:
    trained.forward_backward(conversations(trained.adapter.decoder.config)[:2], LossName.CROSS_ENTROPY)
    trained.optim_step(AdamParams(learning_rate=5e-3))


def fail(trained: TrainingSession) -> None:
    """Ask for a gradient whose last datum's loss is not finite: the stages have computed when that is seen."""
    data = []
    for datum in conversations(trained.adapter.decoder.config):
        inputs = {
            "target_tokens": datum.inputs["target_tokens"],
            "logprobs": np.full(len(datum.tokens), -1.0, np.float32),
            "advantages": np.ones(len(datum.tokens), np.float32),
        }
        data.append(replace(datum, inputs=inputs))
    data[-1].inputs["logprobs"][:] = -2000.0
    with pytest.raises(InputError, match="finite"):
        trained.forward_backward(data, LossName.IMPORTANCE_SAMPLING)


def weights_sha256(adapter: Adapter) -> str:
    return digest({name: t.numpy() for name, t in values(adapter.slots).items()})


def digest(tensors: dict[str, np.ndarray]) -> str:
    return tensors_sha256(tensors)


def sampled(decoder: Decoder, adapters: list[Adapter], limits: SamplerLimits) -> list[SampleResult]:
    """Prompts of several lengths under each adapter and the base alone, several samples each."""
    pool = ShardedPool(decoder, limits) if isinstance(decoder, ShardedDecoder) else None
    sampler = Sampler(decoder.config, decoder.kernels, limits=limits, pool=pool)
    rng = np.random.default_rng(1)
    params = SamplingParams(seed=7, max_tokens=9, stop=())
    lows = [adapter.low for adapter in adapters] + [{}]
    requests = [
        SampleRequest(
            prompt=rng.integers(1, decoder.config.vocab_size, n).astype(np.int32),
            params=params,
            num_samples=3,
            topk_prompt_logprobs=2,
        )
        for n in (5, 33, 16)
        for _ in lows
    ]
    return sampler.sample(requests, [Policy(decoder, low) for low in lows] * 3)


def bits(results: list[SampleResult]) -> str:
    return digest(
        {
            f"{i} {j} {name}": getattr(sequence, name)
            for i, result in enumerate(results)
            for j, sequence in enumerate(result.sequences)
            for name in ("tokens", "logprobs")
        }
    )


@pytest.mark.parametrize(("config", "kind"), TRAINED.values(), ids=TRAINED)
def test_training_has_the_bits_of_an_unsharded_base(config: DecoderConfig, kind: AdapterKind) -> None:
    expected = two_steps(session(whole(config, kind), kind))
    for shards, how in HOW.items():
        assert two_steps(session(over(config, kind, shards), kind, how)) == expected


@pytest.mark.parametrize("kind", [AdapterKind.DORA, AdapterKind.QLORA])
@pytest.mark.parametrize(("config", "shards"), [(NANO, 3), (MOE, 2)], ids=["3", "mixture"])
def test_sampling_has_the_bits_of_an_unsharded_base(config: DecoderConfig, shards: int, kind: AdapterKind) -> None:
    found: set[str] = set()
    for decoder in (whole(config, kind), over(config, kind, shards)):
        trained = [session(decoder, kind, seed=seed) for seed in (1, 2)]
        for one in trained:
            a_step(one)
        frozen = trained[0].adapter.snapshot()
        a_step(trained[0])
        adapters = [frozen, *(one.adapter for one in trained)]
        found.update(bits(sampled(decoder, adapters, limits)) for limits in LIMITS)
    assert len(found) == 1


def test_an_adapter_on_some_layers_only_is_sent_to_where_these_are() -> None:
    for spec in (
        AdapterSpec(kind=AdapterKind.LORA, rank=4, train_attn=False, train_mlp=False),
        AdapterSpec(kind=AdapterKind.DORA, rank=4, train_attn=False, train_unembed=False),
    ):
        names = None if spec.train_unembed else ["model.layers.1.mlp.up_proj"]
        found = []
        for decoder in (whole(NANO, spec.kind), over(NANO, spec.kind, 3)):
            adapter = create_adapter(decoder, spec, targets=names)
            found.append(two_steps(TrainingSession(adapter)))
        assert found[0] == found[1]


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QDORA])
def test_a_failing_micro_batch_leaves_nothing_behind(kind: AdapterKind) -> None:
    how = MicroBatches(units=1)
    decoder = over(NANO, kind, 3)
    trained = session(decoder, kind, how)
    assert two_steps(trained, failing=True) == two_steps(session(whole(NANO, kind), kind, how))
    fail(trained)
    assert all(stage.is_recording for stage in stages_of(decoder))
    gc.collect()
    decoder.tidy()
    for stage in stages_of(decoder):
        assert not stage.is_recording
        assert stage.num_adapters == 1


def test_stages_drop_the_adapters_that_are_gone() -> None:
    decoder = over(NANO, AdapterKind.LORA, 2)
    trained = session(decoder, AdapterKind.LORA)
    for _ in range(3):
        sampled(decoder, [trained.adapter.snapshot()], LIMITS[0])
        two_steps(trained)
    gc.collect()
    decoder.tidy()
    assert [stage.num_adapters for stage in stages_of(decoder)] == [0]
    trained.forward(conversations(NANO), LossName.CROSS_ENTROPY)
    assert [stage.num_adapters for stage in stages_of(decoder)] == [1]


def test_a_step_asks_each_stage_once_forward_and_once_back() -> None:
    decoder = over(NANO, AdapterKind.LORA, 3)
    trained = session(decoder, AdapterKind.LORA)
    trained.forward_backward(conversations(NANO)[:1], LossName.CROSS_ENTROPY)
    for calls in decoder.stages:
        assert calls.calls == ["clear", "open", "forward", "backward"]  # pyright: ignore[reportAttributeAccessIssue]


def test_weights_that_are_not_finite_harm_no_neighbour() -> None:
    found = []
    for decoder in (whole(NANO, AdapterKind.LORA), over(NANO, AdapterKind.LORA, 2)):
        broken = create_adapter(decoder, AdapterSpec(rank=4))
        next(iter(broken.low.values())).b[0].value.fill_(float("nan"))
        broken.changed()
        with pytest.raises(BackendError):
            sampled(decoder, [broken], LIMITS[1])
        found.append(bits(sampled(decoder, [], LIMITS[1])))
    assert found[0] == found[1]


def test_a_stage_refuses_what_it_no_longer_has() -> None:
    decoder = over(NANO, AdapterKind.LORA, 2)
    trained = session(decoder, AdapterKind.LORA)
    trained.forward(conversations(NANO), LossName.CROSS_ENTROPY)
    stages_of(decoder)[0].clear()
    with pytest.raises(BackendError, match="adapter"):
        trained.forward(conversations(NANO), LossName.CROSS_ENTROPY)
    with pytest.raises(BackendError, match="step"):
        stages_of(decoder)[0].backward(0, np.zeros((1, NANO.hidden_size), np.float32))


def test_a_sampler_with_a_cache_of_its_own_is_refused() -> None:
    decoder = over(NANO, AdapterKind.LORA, 2)
    request = SampleRequest(prompt=np.array([1, 2], np.int32), params=SamplingParams(seed=0))
    with pytest.raises(BackendError, match="pool"):
        Sampler(NANO, decoder.kernels).sample([request], [Policy(decoder, {})])


def test_all_weights_cannot_be_trained() -> None:
    with pytest.raises(ConfigError, match="full"):
        create_adapter(over(NANO, AdapterKind.LORA, 2), AdapterSpec(kind=AdapterKind.FULL))


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QDORA])
@pytest.mark.parametrize("written", ["folder", "gguf"])
def test_what_is_read_stage_by_stage_has_the_same_bits(
    written: str, kind: AdapterKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    path = tmp_path / "base"
    if written == "folder":
        config = replace(QWEN, qk_norm=False, family=Family.QWEN2)
        write_folder(path, config, weights_of(config), dtype=torch.bfloat16)
    else:
        config = replace(NANO, vocab_size=VOCAB, intermediate_size=96)
        path = path.with_suffix(".gguf")
        write_gguf(path, config, weights_of(config), type=GGMLQuantizationType.Q8_0)
    base = stored_base(str(path))
    how = {"quantised": kind.quantised}
    one = build_decoder(base.config, dict(base.weights), NativeKernels(), **how)
    expected = two_steps(session(one, kind))
    assert two_steps(session(spread(base.config, base.weights, 3, **how), kind)) == expected


@pytest.mark.parametrize(("quantised", "shards"), [(False, 3), (True, 2)])
def test_every_stage_has_a_certificate(quantised: bool, shards: int) -> None:
    small = replace(QWEN, intermediate_size=96, tied=True)
    for layers in cut_layers(small, shards, quantised=quantised):
        stage = build_decoder(small, weights_of(small), NativeKernels(), quantised=quantised, layers=layers)
        assert certify(standing_alone(stage)).holds
