"""Adapters on experts and routers, to PEFT and from it: one pair an expert and matrix, or all experts' in one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from clean_peft import clean_answers
from families import make_hf_model
from safetensors.torch import load_file

from oracles import disturb
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import read_weights, write_folder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.merge import all_logprobs, max_logprob_difference, merged_weights, probe_sequences
from tinsmith.models.peft_format import export_peft, import_peft
from tinsmith.models.rounding import renumbered, rounding_difference
from tinsmith.models.slots import values
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import CheckpointError, ConfigError, TinsmithError

LIMIT = 1e-5

pytestmark = [
    pytest.mark.whole,
    # peft 0.21 on transformers 5.24: what it says of parameters that it adapts, and of a deprecated name.
    pytest.mark.filterwarnings("ignore:.*save_embedding_layers:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]


def _decoder(folder: Path, *, quantised: bool = False) -> Decoder:
    config = read_config(folder)
    return build_decoder(config, read_weights(folder, config), NativeKernels(), quantised=quantised)


def _ours(adapter: Adapter) -> torch.Tensor:
    return all_logprobs(adapter.decoder, adapter.low, probe_sequences(adapter.decoder.config, seed=0))


@dataclass
class Case:
    family: str
    spec: AdapterSpec

    def adapter(self, base: Path) -> Adapter:
        make_hf_model(self.family, base, 5)
        decoder = _decoder(base, quantised=self.spec.kind.quantised)
        adapter = create_adapter(decoder, self.spec)
        disturb(adapter, 4)
        if self.spec.kind.quantised:  # what PEFT is to load the adapter on: the base as it is held
            held = base.with_name(base.name + "-held")
            write_folder(held, decoder.config, merged_weights(Adapter(self.spec, decoder)))
        return adapter


def _spec(kind: AdapterKind = AdapterKind.LORA, **changes: bool) -> AdapterSpec:
    return AdapterSpec(kind=kind, rank=6, alpha=12.0, seed=2, **changes)


CASES = {
    "qwen3_moe-router": Case("qwen3_moe_64", _spec(train_router=True)),
    "qwen3_moe-qlora": Case("qwen3_moe_64", _spec(AdapterKind.QLORA)),
    "qwen3_moe-attention-dora": Case("qwen3_moe", _spec(AdapterKind.DORA, train_mlp=False)),
    "olmoe": Case("olmoe", _spec()),
    "olmoe-experts": Case("olmoe", _spec(train_attn=False, train_unembed=False)),
    "olmoe-router-alone": Case(
        "olmoe", _spec(train_attn=False, train_unembed=False, train_mlp=False, train_router=True)
    ),
}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Adapter], Path]:
    """Every case's adapter, and the answers of one script that knows transformers and peft only."""
    folder = tmp_path_factory.mktemp("clean")
    adapters: dict[str, Adapter] = {}
    questions: dict[str, object] = {}
    for name, case in CASES.items():
        base = folder / name
        adapters[name] = case.adapter(base)
        export_peft(adapters[name], folder / f"{name}-adapter", base_name=str(base))
        tokens = probe_sequences(adapters[name].decoder.config, seed=0)
        questions[name] = {
            "base": f"{base}-held" if case.spec.kind.quantised else str(base),
            "adapter": str(folder / f"{name}-adapter"),
            "tokens": [sequence.tolist() for sequence in tokens],
        }
    return adapters, clean_answers(folder, questions)


@pytest.mark.parametrize("name", CASES)
def test_plain_peft_loads_what_was_exported(clean: tuple[dict[str, Adapter], Path], name: str) -> None:
    adapters, answers = clean
    difference = float((_ours(adapters[name]) - load_file(answers)[name]).abs().max())
    assert difference <= LIMIT


@pytest.mark.parametrize("name", CASES)
def test_an_exported_adapter_comes_back_with_the_same_bits(clean: tuple[dict[str, Adapter], Path], name: str) -> None:
    adapters, answers = clean
    adapter = adapters[name]
    again = import_peft(answers.with_name(f"{name}-adapter"), adapter.decoder)
    before, after = values(adapter.slots), values(again.slots)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert torch.equal(_ours(again), _ours(adapter))
    assert again.spec.train_router == adapter.spec.train_router
    assert again.spec.train_mlp == adapter.spec.train_mlp


def test_every_expert_and_matrix_has_a_pair_of_its_own(clean: tuple[dict[str, Adapter], Path]) -> None:
    _, answers = clean
    stored = load_file(answers.with_name("olmoe-experts-adapter") / "adapter_model.safetensors")
    assert set(stored) == {
        f"base_model.model.model.layers.{n}.mlp.experts.{e}.{matrix}_proj.lora_{which}.weight"
        for n in range(2)
        for e in range(8)
        for matrix in ("gate", "up", "down")
        for which in "AB"
    }
    settings = json.loads((answers.with_name("olmoe-experts-adapter") / "adapter_config.json").read_text())
    assert settings["target_modules"] == ["gate_proj", "up_proj", "down_proj"]


def test_what_peft_would_load_a_part_of_is_not_exported(tmp_path: Path) -> None:
    adapter = Case("qwen3_moe", _spec()).adapter(tmp_path / "base")
    with pytest.raises(ConfigError, match="experts and dense layers"):
        export_peft(adapter, tmp_path / "adapter", base_name="b")
    assert not (tmp_path / "adapter").exists()


# Made by PEFT


def _made_by_peft(base: Path, folder: Path, **settings: object) -> torch.Tensor:
    """Let PEFT make an adapter that is no identity; return what PEFT's model says."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_pretrained(base)
    config = LoraConfig(task_type="CAUSAL_LM", r=4, init_lora_weights=False, **settings)
    peft_model = get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, parameter in peft_model.named_parameters():
            if "lora_" in name:
                parameter.mul_(0.2)
    peft_model.save_pretrained(folder)
    tokens = probe_sequences(read_config(base), seed=0)
    with torch.no_grad():
        rows = [peft_model(torch.from_numpy(t.astype(np.int64))[None]).logits[0] for t in tokens]
    return torch.log_softmax(torch.cat(rows).double(), -1)


BY_PEFT = {
    "experts": {"target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]},
    "gate_up": {"target_parameters": ["mlp.experts.gate_up_proj"]},
    "down": {"target_parameters": ["experts.down_proj"]},
    "router": {"target_parameters": ["mlp.gate.weight"]},
    "all": {"target_modules": ["q_proj", "o_proj"], "target_parameters": ["gate_up_proj", "down_proj", "gate.weight"]},
}


@pytest.mark.parametrize("family", ["olmoe", "qwen3_moe_64"])
@pytest.mark.parametrize("name", BY_PEFT)
def test_what_peft_trains_on_transformers_5_is_read(family: str, name: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path / "base", 6)
    settings = {"target_modules": [], **BY_PEFT[name]}
    theirs = _made_by_peft(tmp_path / "base", tmp_path / "adapter", **settings)
    decoder = _decoder(tmp_path / "base")
    adapter = import_peft(tmp_path / "adapter", decoder)
    assert float((_ours(adapter) - theirs).abs().max()) <= LIMIT
    assert max_logprob_difference(adapter, decoder) > 100 * LIMIT
    assert adapter.spec.train_router == (name in ("router", "all"))


@pytest.mark.parametrize(
    ("field", "value"),
    [("target_parameters", ["experts.w1"]), ("target_parameters", "all"), ("rank_pattern", {"a": 2})],
)
def test_an_unsupported_setting_is_refused_by_name(field: str, value: object, tmp_path: Path) -> None:
    adapter = Case("olmoe", _spec()).adapter(tmp_path / "base")
    export_peft(adapter, tmp_path / "adapter", base_name="b")
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(ConfigError) as caught:
        import_peft(tmp_path / "adapter", adapter.decoder)
    assert caught.value.field == field


def test_an_adapter_of_other_experts_is_refused(tmp_path: Path) -> None:
    adapter = Case("olmoe", _spec()).adapter(tmp_path / "base")
    export_peft(adapter, tmp_path / "adapter", base_name="b")
    make_hf_model("olmoe_64", tmp_path / "other", 6)
    with pytest.raises(TinsmithError) as caught:
        import_peft(tmp_path / "adapter", _decoder(tmp_path / "other"))
    assert isinstance(caught.value, CheckpointError)
    assert len(str(caught.value).splitlines()) <= 5


# Merged


@pytest.mark.parametrize("kind", [k for k in AdapterKind if k is not AdapterKind.FULL])
@pytest.mark.parametrize("family", ["qwen3_moe", "olmoe"])
def test_merged_weights_are_the_model_that_was_trained(family: str, kind: AdapterKind, tmp_path: Path) -> None:
    adapter = Case(family, _spec(kind, train_router=True)).adapter(tmp_path / "base")
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
    said = [all_logprobs(build_decoder(config, w, kernels), {}, tokens) for w in (weights, other)]
    assert 0.0 < float((said[0] - said[1]).abs().max()) < 1e-4
