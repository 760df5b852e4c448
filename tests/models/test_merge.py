from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from families import make_hf_model
from peft_cases import Case, spec_of

from oracles import (
    LLAMA,
    QWEN2,
    QWEN3,
    disturb,
    held_weights,
    random_weights,
    reference_logprobs,
    reference_model,
    small_decoder,
)
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.folder import read_weights, write_folder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.merge import all_logprobs, max_logprob_difference, merged_config, merged_weights, probe_sequences
from tinsmith.models.rounding import renumbered, rounding_difference
from tinsmith.models.slots import values
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec

LIMIT = 1e-5
CONFIGS = {"llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3}
LOW_RANK = [kind for kind in AdapterKind if kind is not AdapterKind.FULL]

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")]


def _adapter(config: DecoderConfig, spec: AdapterSpec, targets: list[str] | None = None) -> Adapter:
    decoder = small_decoder(config, quantised=spec.kind.quantised)
    adapter = create_adapter(decoder, spec, targets=targets)
    if spec.kind is AdapterKind.FULL:
        for weight in adapter.weights():
            weight.value.mul_(1.01)
        adapter.changed()
    else:
        disturb(adapter, 5)
    return adapter


def _written_and_read(adapter: Adapter, folder: Path) -> tuple[DecoderConfig, dict[str, torch.Tensor]]:
    write_folder(folder, merged_config(adapter), merged_weights(adapter))
    config = read_config(folder)
    return config, read_weights(folder, config)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", LOW_RANK)
def test_a_merged_model_says_what_base_and_adapter_say(name: str, kind: AdapterKind, tmp_path: Path) -> None:
    adapter = _adapter(CONFIGS[name], AdapterSpec(kind=kind, rank=4))
    config, weights = _written_and_read(adapter, tmp_path / "merged")
    assert max_logprob_difference(adapter, build_decoder(config, weights, NativeKernels())) <= LIMIT
    assert max_logprob_difference(adapter, adapter.decoder) > 0.01


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", LOW_RANK)
def test_a_merged_weight_is_what_peft_merges(name: str, kind: AdapterKind) -> None:
    """PEFT merges in fp64 here, onto the base with its NF4 decoded."""
    adapter = _adapter(replace(CONFIGS[name], tied=False), AdapterSpec(kind=kind, rank=4))
    reference = reference_model(adapter).merge_and_unload().state_dict()
    merged = merged_weights(adapter)
    assert merged.keys() == reference.keys()
    for key, weight in merged.items():
        assert float((weight - reference[key]).abs().max()) <= 3e-7 * max(1.0, float(reference[key].abs().max()))


@pytest.mark.parametrize("tied", [True, False])
def test_a_whole_trained_model_is_merged_as_it_is(tied: bool, tmp_path: Path) -> None:
    adapter = _adapter(replace(LLAMA, tied=tied), AdapterSpec(kind=AdapterKind.FULL))
    config, weights = _written_and_read(adapter, tmp_path / "merged")
    assert config == adapter.decoder.config
    assert all(torch.equal(weights[name], tensor) for name, tensor in values(adapter.slots).items())
    assert max_logprob_difference(adapter, build_decoder(config, weights, NativeKernels())) == 0.0


def test_an_adapted_head_is_no_longer_tied(tmp_path: Path) -> None:
    adapter = _adapter(LLAMA, AdapterSpec(rank=4))
    config, weights = _written_and_read(adapter, tmp_path / "merged")
    assert LLAMA.tied
    assert not config.tied
    embedding = random_weights(LLAMA, 1)["model.embed_tokens.weight"]
    assert torch.equal(weights["model.embed_tokens.weight"], embedding)
    assert not torch.equal(weights["lm_head.weight"], embedding)


def test_a_head_that_is_not_adapted_stays_tied() -> None:
    adapter = _adapter(LLAMA, AdapterSpec(rank=4, train_unembed=False))
    assert merged_config(adapter) == LLAMA
    assert "lm_head.weight" not in merged_weights(adapter)


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QDORA])
def test_matrices_that_are_not_adapted_keep_the_bits_of_the_base(kind: AdapterKind) -> None:
    targets = ["model.layers.1.self_attn.v_proj", "model.layers.0.mlp.up_proj"]
    adapter = _adapter(LLAMA, AdapterSpec(kind=kind, rank=4), targets)
    held, merged = held_weights(LLAMA, quantised=kind.quantised), merged_weights(adapter)
    changed = {name for name in held if not torch.equal(held[name], merged[name])}
    assert changed == {f"{target}.weight" for target in targets}


@pytest.mark.parametrize("kind", [AdapterKind.DORA, AdapterKind.QDORA])
def test_steps_do_not_move_columns_beside_a_target_of_dora(kind: AdapterKind) -> None:
    """The magnitudes of q and k exist beside that of v, but belong to nobody."""
    adapter = _adapter(LLAMA, AdapterSpec(kind=kind, rank=4), ["model.layers.0.self_attn.v_proj"])
    for low in adapter.low.values():
        low.magnitude.value += 1.0
    adapter.changed()
    held, merged = held_weights(LLAMA, quantised=kind.quantised), merged_weights(adapter)
    for name in ("q_proj", "k_proj"):
        key = f"model.layers.0.self_attn.{name}.weight"
        assert torch.equal(held[key], merged[key])


def test_a_diverged_model_is_within_no_limit() -> None:
    adapter = _adapter(LLAMA, AdapterSpec(rank=4))
    adapter.weights()[0].value.fill_(float("nan"))
    assert not max_logprob_difference(adapter, adapter.decoder) <= 1e9


def test_probes_are_ragged_and_the_same_for_a_seed() -> None:
    once, again = (probe_sequences(LLAMA, seed=1) for _ in range(2))
    assert [len(sequence) for sequence in once] == [1, 2, 17, 33, 64]
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))
    assert not np.array_equal(once[-1], probe_sequences(LLAMA, seed=2)[-1])
    short = probe_sequences(replace(LLAMA, max_positions=20), seed=1)
    assert [len(sequence) for sequence in short] == [1, 2, 17, 20]


def test_log_probabilities_are_those_of_transformers() -> None:
    adapter = _adapter(QWEN2, AdapterSpec(rank=4, train_unembed=False))
    tokens = probe_sequences(QWEN2, seed=0)
    model = reference_model(adapter)
    with torch.no_grad():
        theirs = torch.cat([reference_logprobs(model, sequence) for sequence in tokens])
    assert float((all_logprobs(adapter.decoder, adapter.low, tokens) - theirs).abs().max()) <= LIMIT


@pytest.mark.parametrize("kind", LOW_RANK)
@pytest.mark.parametrize("family", ["qwen3_moe", "olmoe"])
def test_merged_experts_are_the_model_that_was_trained(family: str, kind: AdapterKind, tmp_path: Path) -> None:
    adapter = Case(family, spec_of(kind, train_router=True)).adapter(tmp_path / "base")
    config, weights = adapter.decoder.config, merged_weights(adapter)
    merged = build_decoder(config, weights, adapter.decoder.kernels)
    rounding = rounding_difference(config, weights, adapter.decoder.kernels)
    assert 0.0 < rounding < 1e-3
    assert max_logprob_difference(adapter, merged) <= 4 * rounding


@pytest.mark.parametrize("family", ["qwen3_moe", "olmoe"])
def test_renumbered_channels_are_the_same_function(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 5)
    config = read_config(tmp_path)
    weights = read_weights(tmp_path, config)
    other = renumbered(config, weights, seed=3)
    for name in ("model.layers.1.mlp.gate.weight", "model.layers.1.mlp.experts.2.down_proj.weight"):
        assert not torch.equal(other[name], weights[name])
    tokens = probe_sequences(config, seed=0)
    kernels = NativeKernels()
    words = [all_logprobs(build_decoder(config, w, kernels), {}, tokens) for w in (weights, other)]
    assert 0.0 < float((words[0] - words[1]).abs().max()) < 1e-4
