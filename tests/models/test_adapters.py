"""Adapters against peft, and what a fresh, a trained, a frozen and a neighbouring one promise."""

import math
from dataclasses import replace

import pytest
import torch

from oracles import (
    LLAMA,
    OLMOE,
    QWEN2,
    QWEN3,
    QWEN3_MOE,
    Tensors,
    base_sha256,
    cross_entropy,
    full_logprobs,
    gradients,
    held_weights,
    hf_model,
    make_adapter,
    make_datums,
    random_weights,
    reference_gradients,
    reference_logprobs,
    reference_model,
    relative_error,
    sequences,
    weights_sha256,
)
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Mixture
from tinsmith.models.slots import load, values
from tinsmith.ops.functions import Weight
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, LossName
from tinsmith.types.errors import CheckpointError, ConfigError

pytestmark = pytest.mark.whole

MAX_LOGPROB_DIFFERENCE = 1e-5
MAX_GRADIENT_ERROR = 1e-4

LOW_RANK = [kind for kind in AdapterKind if kind is not AdapterKind.FULL]
PLAIN = [AdapterKind.LORA, AdapterKind.DORA]
DECOMPOSED = [AdapterKind.DORA, AdapterKind.QDORA]
CONFIGS = pytest.mark.parametrize("config", [LLAMA, QWEN2, QWEN3], ids=["llama", "qwen2", "qwen3"])
SWITCHES = {
    "attention": {"train_mlp": False, "train_unembed": False},
    "mlp": {"train_attn": False, "train_unembed": False},
    "unembed": {"train_attn": False, "train_mlp": False},
}


def _spec(kind: AdapterKind, **changes: float) -> AdapterSpec:
    return AdapterSpec(**{"kind": kind, "rank": 4, "seed": 5, **changes})


def _largest_difference(adapter: Adapter, model: torch.nn.Module) -> float:
    tokens = sequences((40, 1, 17), adapter.decoder.config, 6)
    with torch.no_grad():
        return max(
            float((ours - reference_logprobs(model, ids)).abs().max())
            for ours, ids in zip(full_logprobs(adapter.decoder, adapter.low, tokens), tokens, strict=True)
        )


def _assert_is_peft(adapter: Adapter, dtype: torch.dtype = torch.float32) -> None:
    model = reference_model(adapter, dtype)
    assert _largest_difference(adapter, model) <= MAX_LOGPROB_DIFFERENCE
    datums = make_datums(adapter.decoder.config, (24, 9, 40), 7)
    session = TrainingSession(adapter, micro_batches=MicroBatches(units=2))
    session.forward_backward(datums, LossName.CROSS_ENTROPY)
    reference = reference_gradients(model.double(), datums, cross_entropy)
    ours = gradients(session)
    assert adapter.decoder.config.mixture is not None or all(float(one.norm()) > 0 for one in ours.values())
    assert relative_error(ours, reference) <= MAX_GRADIENT_ERROR


def _train(adapter: Adapter, *, steps: int = 2, seed: int = 8) -> None:
    session = TrainingSession(adapter)
    for step in range(steps):
        datums = make_datums(adapter.decoder.config, (12, 5), seed + step)
        session.forward_backward(datums, LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams(learning_rate=1e-2, weight_decay=0.1))


# Against peft


@CONFIGS
@pytest.mark.parametrize("kind", LOW_RANK)
def test_all_linear_layers_compute_as_in_peft(kind: AdapterKind, config: DecoderConfig) -> None:
    _assert_is_peft(make_adapter(config, _spec(kind)))


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=list(SWITCHES))
@pytest.mark.parametrize("kind", LOW_RANK)
def test_one_group_of_layers_computes_as_in_peft(kind: AdapterKind, switches: dict[str, bool]) -> None:
    adapter = make_adapter(QWEN2, _spec(kind, **switches))
    assert (
        len(adapter.targets)
        == {"train_attn": 8, "train_mlp": 6, "train_unembed": 1}[
            next(name for name in ("train_attn", "train_mlp", "train_unembed") if name not in switches)
        ]
    )
    _assert_is_peft(adapter)


@pytest.mark.parametrize("kind", LOW_RANK)
def test_some_of_the_matrices_that_lie_beside_one_another_compute_as_in_peft(kind: AdapterKind) -> None:
    targets = ("model.layers.0.self_attn.k_proj", "model.layers.1.mlp.up_proj")
    adapter = make_adapter(QWEN2, _spec(kind), targets=targets)
    assert adapter.targets == targets
    _train(adapter)  # what lies beside them must not be trained along
    _assert_is_peft(adapter)


@pytest.mark.parametrize("rank", [1, 130], ids=["one", "beyond_the_width"])
@pytest.mark.parametrize("kind", PLAIN)
def test_ranks_from_one_to_beyond_the_width_compute_as_in_peft(kind: AdapterKind, rank: int) -> None:
    _assert_is_peft(make_adapter(LLAMA, _spec(kind, rank=rank, alpha=8.0)))


FEWER = replace(OLMOE, num_layers=1, mixture=Mixture(num_experts=12, num_active=3, expert_size=24, normalised=False))


@pytest.mark.parametrize("config", [QWEN3_MOE, FEWER], ids=["qwen3_moe", "olmoe"])
@pytest.mark.parametrize("spec", ["lora", "lora-router", "dora-router", "qlora", "qdora-router"])
def test_experts_and_routers_compute_as_in_peft(config: DecoderConfig, spec: str) -> None:
    kind, _, router = spec.partition("-")
    adapter = make_adapter(config, _spec(AdapterKind(kind), rank=3, alpha=6.0, train_router=bool(router)))
    _assert_is_peft(adapter, torch.float64)


@pytest.mark.parametrize("kind", LOW_RANK)
def test_an_adapter_is_its_merged_weights(kind: AdapterKind) -> None:
    adapter = make_adapter(QWEN2, _spec(kind))
    trained = {name: tensor.double() for name, tensor in values(adapter.slots).items()}
    merged = held_weights(QWEN2, quantised=kind.quantised)
    for target in adapter.targets:
        b, a = trained[f"{target}.lora_B.weight"], trained[f"{target}.lora_A.weight"]
        weight = merged[f"{target}.weight"].double() + adapter.spec.scaling * (b @ a)
        if kind.decomposed:
            magnitude = trained[f"{target}.lora_magnitude_vector"]
            weight *= (magnitude / weight.norm(dim=1))[:, None]
        merged[f"{target}.weight"] = weight.float()
    assert _largest_difference(adapter, hf_model(QWEN2, merged)) <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize("kind", DECOMPOSED)
def test_a_row_of_zeros_in_the_base_gives_no_nan(kind: AdapterKind) -> None:
    weights = random_weights(QWEN2, 1)
    weights["model.layers.0.mlp.up_proj.weight"][3] = 0.0
    weights["lm_head.weight"][5] = 0.0
    base = build_decoder(QWEN2, weights, NativeKernels(), quantised=kind.quantised)
    adapter = create_adapter(base, _spec(kind))
    tokens = sequences((6,), QWEN2, 1)
    (ours,), (plain,) = full_logprobs(base, adapter.low, tokens), full_logprobs(base, {}, tokens)
    assert float((ours - plain).abs().max()) <= MAX_LOGPROB_DIFFERENCE


# Fresh


@CONFIGS
@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QLORA, AdapterKind.FULL])
def test_a_fresh_adapter_changes_no_bit(kind: AdapterKind, config: DecoderConfig) -> None:
    assert _fresh_difference(kind, config) == 0.0


@CONFIGS
@pytest.mark.parametrize("kind", DECOMPOSED)
def test_a_fresh_magnitude_changes_rounding_only(kind: AdapterKind, config: DecoderConfig) -> None:
    assert _fresh_difference(kind, config) <= MAX_LOGPROB_DIFFERENCE


def _fresh_difference(kind: AdapterKind, config: DecoderConfig) -> float:
    adapter = make_adapter(config, _spec(kind), active=False)
    base = make_adapter(config, _spec(kind), active=False).decoder
    tokens = sequences((40, 1), config, 1)
    pairs = zip(full_logprobs(adapter.decoder, adapter.low, tokens), full_logprobs(base, {}, tokens), strict=True)
    return max(float((with_it - without).abs().max()) for with_it, without in pairs)


@pytest.mark.parametrize("kind", DECOMPOSED)
def test_a_fresh_magnitude_is_the_row_norm_of_the_base_as_held(kind: AdapterKind) -> None:
    adapter = make_adapter(QWEN2, _spec(kind), active=False)
    held = held_weights(QWEN2, quantised=kind.quantised)
    tensors = values(adapter.slots)
    for target in adapter.targets:
        norms = held[f"{target}.weight"].double().norm(dim=1)
        magnitude = tensors[f"{target}.lora_magnitude_vector"].double()
        torch.testing.assert_close(magnitude, norms, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", LOW_RANK)
def test_a_fresh_a_is_uniform_and_a_fresh_b_is_zero(kind: AdapterKind) -> None:
    adapter = make_adapter(QWEN2, _spec(kind, rank=64), active=False)
    for name, tensor in values(adapter.slots).items():
        if name.endswith("lora_B.weight"):
            assert not tensor.any()
        elif name.endswith("lora_A.weight"):
            bound = 1.0 / math.sqrt(tensor.shape[1])
            assert float(tensor.abs().max()) <= bound
            assert float(tensor.double().std()) == pytest.approx(bound / math.sqrt(3), rel=0.03)
            assert abs(float(tensor.double().mean())) < 0.03 * bound


@pytest.mark.parametrize("kind", LOW_RANK)
def test_the_spec_alone_determines_a_fresh_adapters_bits(kind: AdapterKind) -> None:
    first = weights_sha256(make_adapter(LLAMA, _spec(kind), active=False))
    assert weights_sha256(make_adapter(LLAMA, _spec(kind), active=False)) == first
    assert weights_sha256(make_adapter(LLAMA, _spec(kind, seed=6), active=False)) != first


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_no_two_targets_draw_the_same_numbers(seed: int) -> None:
    tensors = values(make_adapter(LLAMA, _spec(AdapterKind.LORA, seed=seed), active=False).slots)
    drawn = [t.flatten()[:200].tolist() for name, t in tensors.items() if "lora_A" in name]
    assert len({tuple(numbers) for numbers in drawn}) == len(drawn) == 15


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=list(SWITCHES))
@pytest.mark.parametrize("kind", PLAIN)
def test_another_target_moves_no_draw(kind: AdapterKind, switches: dict[str, bool]) -> None:
    all_targets = values(make_adapter(QWEN2, _spec(kind), active=False).slots)
    fewer = values(make_adapter(QWEN2, _spec(kind, **switches), active=False).slots)
    assert 0 < len(fewer) < len(all_targets)
    assert all(torch.equal(tensor, all_targets[name]) for name, tensor in fewer.items())


# Frozen, trained, neighbouring


@pytest.mark.parametrize("kind", LOW_RANK)
def test_a_frozen_base_has_no_gradient_and_keeps_its_bits(kind: AdapterKind) -> None:
    adapter = make_adapter(LLAMA, _spec(kind))
    before, trained = base_sha256(adapter.decoder), weights_sha256(adapter)
    _train(adapter)
    assert base_sha256(adapter.decoder) == before
    assert weights_sha256(adapter) != trained
    weights = [slot.weight for slot in adapter.decoder.slots]
    weights += [b for x in adapter.decoder.linears().values() for b in x.base if isinstance(b, Weight)]
    assert all(weight.grad is None for weight in weights)


@CONFIGS
def test_training_everything_leaves_the_base_it_started_from(config: DecoderConfig) -> None:
    adapter = make_adapter(config, _spec(AdapterKind.FULL))
    base = make_adapter(config, _spec(AdapterKind.LORA)).decoder
    before = base_sha256(base)
    assert base_sha256(adapter.decoder) == before
    _train(adapter)
    assert base_sha256(base) == before
    unchanged = {n for n, t in values(adapter.slots).items() if torch.equal(t, values(base.slots)[n])}
    assert not unchanged


def test_a_tied_head_follows_its_embedding() -> None:
    adapter = make_adapter(LLAMA, _spec(AdapterKind.FULL))
    _train(adapter)
    (head,) = adapter.decoder.head.base
    assert torch.equal(head.value, adapter.decoder.embedding.value.t())


@pytest.mark.parametrize("kind", LOW_RANK)
def test_adapters_on_one_base_do_not_touch_one_another(kind: AdapterKind) -> None:
    alone = make_adapter(LLAMA, _spec(kind, seed=1))
    _train(alone)
    idle = make_adapter(LLAMA, _spec(kind, seed=2))
    before, tokens = weights_sha256(idle), sequences((20, 3), LLAMA, 3)
    logprobs = full_logprobs(idle.decoder, idle.low, tokens)

    mine, other = make_adapter(LLAMA, _spec(kind, seed=1)), make_adapter(LLAMA, _spec(kind, seed=3))
    assert mine.decoder is other.decoder is idle.decoder
    sessions = TrainingSession(mine), TrainingSession(other)
    for step in range(2):
        for session in sessions:
            datums = make_datums(LLAMA, (12, 5), 8 + step)
            session.forward_backward(datums, LossName.CROSS_ENTROPY)
        for session in sessions:
            session.optim_step(AdamParams(learning_rate=1e-2, weight_decay=0.1))

    assert weights_sha256(mine) == weights_sha256(alone)
    assert weights_sha256(other) != weights_sha256(mine)
    assert weights_sha256(idle) == before
    again = full_logprobs(idle.decoder, idle.low, tokens)
    assert all(torch.equal(x, y) for x, y in zip(again, logprobs, strict=True))
    assert all(weight.grad is not None and not weight.grad.any() for weight in idle.buffers())


@pytest.mark.parametrize("kind", list(AdapterKind))
def test_a_snapshot_keeps_its_bits_while_training_goes_on(kind: AdapterKind) -> None:
    adapter = make_adapter(LLAMA, _spec(kind))
    snapshot = adapter.snapshot()
    before, tokens = weights_sha256(snapshot), sequences((20, 3), LLAMA, 3)
    logprobs = full_logprobs(adapter.decoder, adapter.low, tokens)
    _train(adapter)
    assert weights_sha256(adapter) != before
    assert weights_sha256(snapshot) == before
    assert all(weight.grad is None for weight in snapshot.buffers())
    again = full_logprobs(snapshot.decoder, snapshot.low, tokens)
    assert all(torch.equal(x, y) for x, y in zip(again, logprobs, strict=True))


@pytest.mark.parametrize("kind", list(AdapterKind))
def test_loaded_weights_compute_like_those_they_are_copies_of(kind: AdapterKind) -> None:
    trained, fresh = make_adapter(LLAMA, _spec(kind)), make_adapter(LLAMA, _spec(kind, seed=9))
    _train(trained)
    load(fresh.slots, values(trained.slots), source="test")
    fresh.changed()
    assert weights_sha256(fresh) == weights_sha256(trained)
    _train(fresh)
    _train(trained)
    assert weights_sha256(fresh) == weights_sha256(trained)


def _without_one(tensors: Tensors) -> None:
    del tensors[min(tensors)]


def _with_another(tensors: Tensors) -> None:
    tensors["model.layers.9.mlp.up_proj.lora_A.weight"] = torch.zeros(4, 64)


def _of_another_shape(tensors: Tensors) -> None:
    tensors["lm_head.lora_B.weight"] = tensors["lm_head.lora_B.weight"].t()


def _with_a_nan(tensors: Tensors) -> None:
    tensors["lm_head.lora_B.weight"][-1, -1] = math.nan


@pytest.mark.parametrize("spoil", [_without_one, _with_another, _of_another_shape, _with_a_nan])
def test_tensors_that_do_not_fit_are_refused_whole(spoil: object) -> None:
    adapter = make_adapter(LLAMA, _spec(AdapterKind.DORA))
    before = weights_sha256(adapter)
    tensors = {name: tensor + 1.0 for name, tensor in values(adapter.slots).items()}
    assert callable(spoil)
    spoil(tensors)
    with pytest.raises(CheckpointError, match=r"test: (model|lm_head)"):
        load(adapter.slots, tensors, source="test")
    assert weights_sha256(adapter) == before


# Refused


@pytest.mark.parametrize("quantised", [False, True])
def test_a_kind_that_does_not_fit_the_base_is_refused(quantised: bool) -> None:
    base = build_decoder(LLAMA, random_weights(LLAMA, 1), NativeKernels(), quantised=quantised)
    for kind in AdapterKind:
        if kind.quantised != quantised:
            with pytest.raises(ConfigError, match=rf"kind = '{kind}'"):
                create_adapter(base, _spec(kind))


def test_a_target_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.layers\.7\.mlp\.up_proj"):
        make_adapter(LLAMA, _spec(AdapterKind.LORA), targets=["model.layers.7.mlp.up_proj"])
