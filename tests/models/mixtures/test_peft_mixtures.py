"""Adapters on experts and routers, to PEFT and from it: one pair an expert and matrix, or all experts' in one."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from families import make_hf_model
from peft_cases import Case, decoder_of, logprobs_of, spec_of

from tinsmith.models.build import build_decoder
from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.merge import all_logprobs, max_logprob_difference, merged_weights, probe_sequences
from tinsmith.models.peft_format import export_peft, import_peft
from tinsmith.models.rounding import renumbered, rounding_difference
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import CheckpointError, ConfigError, TinsmithError

LIMIT = 1e-5

pytestmark = [
    pytest.mark.whole,
    # peft 0.21 on transformers 5.24: what it says of parameters that it adapts, and of a deprecated name.
    pytest.mark.filterwarnings("ignore:.*save_embedding_layers:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]


def test_what_peft_would_load_a_part_of_is_not_exported(tmp_path: Path) -> None:
    adapter = Case("qwen3_moe", spec_of()).adapter(tmp_path / "base")
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
    decoder = decoder_of(tmp_path / "base")
    adapter = import_peft(tmp_path / "adapter", decoder)
    assert float((logprobs_of(adapter) - theirs).abs().max()) <= LIMIT
    assert max_logprob_difference(adapter, decoder) > 100 * LIMIT
    assert adapter.spec.train_router == (name in ("router", "all"))


@pytest.mark.parametrize(
    ("field", "value"),
    [("target_parameters", ["experts.w1"]), ("target_parameters", "all"), ("rank_pattern", {"a": 2})],
)
def test_an_unsupported_setting_is_refused_by_name(field: str, value: object, tmp_path: Path) -> None:
    adapter = Case("olmoe", spec_of()).adapter(tmp_path / "base")
    export_peft(adapter, tmp_path / "adapter", base_name="b")
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(ConfigError) as caught:
        import_peft(tmp_path / "adapter", adapter.decoder)
    assert caught.value.field == field


def test_an_adapter_of_other_experts_is_refused(tmp_path: Path) -> None:
    adapter = Case("olmoe", spec_of()).adapter(tmp_path / "base")
    export_peft(adapter, tmp_path / "adapter", base_name="b")
    make_hf_model("olmoe_64", tmp_path / "other", 6)
    with pytest.raises(TinsmithError) as caught:
        import_peft(tmp_path / "adapter", decoder_of(tmp_path / "other"))
    assert isinstance(caught.value, CheckpointError)


# Merged


@pytest.mark.parametrize("kind", [k for k in AdapterKind if k is not AdapterKind.FULL])
@pytest.mark.parametrize("family", ["qwen3_moe", "olmoe"])
def test_merged_weights_are_the_model_that_was_trained(family: str, kind: AdapterKind, tmp_path: Path) -> None:
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
    said = [all_logprobs(build_decoder(config, w, kernels), {}, tokens) for w in (weights, other)]
    assert 0.0 < float((said[0] - said[1]).abs().max()) < 1e-4
