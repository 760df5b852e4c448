"""Adapters on experts and routers, to PEFT and from it: one pair an expert and matrix, or all experts' in one."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from families import make_hf_model
from peft_cases import Case, decoder_of, logprobs_of, spec_of

from oracles import (
    OLMOE,
    QWEN3_MOE,
    cross_entropy,
    full_logprobs,
    gradients,
    held_weights,
    hf_model,
    make_adapter,
    make_datums,
    reference_gradients,
    reference_logprobs,
    reference_model,
    relative_error,
    sequences,
    small_decoder,
)
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.held import held_base
from tinsmith.models.merge import all_logprobs, max_logprob_difference, merged_weights, probe_sequences
from tinsmith.models.peft_format import export_peft, import_peft
from tinsmith.models.rounding import renumbered, rounding_difference
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import LossName
from tinsmith.types.errors import CheckpointError, ConfigError, TinsmithError

pytestmark = [
    pytest.mark.whole,
    pytest.mark.filterwarnings("ignore:.*save_embedding_layers:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]


LIMIT = 1e-5


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


MAX_LOGPROB_DIFFERENCE = 5e-5
MAX_GRADIENT_ERROR = 1e-4

EACH = pytest.mark.parametrize("config", [QWEN3_MOE, replace(OLMOE, num_layers=1)], ids=["qwen3_moe", "olmoe"])
KINDS = pytest.mark.parametrize(
    ("kind", "router"),
    [
        (AdapterKind.LORA, False),
        (AdapterKind.LORA, True),
        (AdapterKind.DORA, True),
        (AdapterKind.QLORA, False),
        (AdapterKind.QDORA, True),
    ],
)


@EACH
@KINDS
def test_an_adapter_computes_and_learns_as_peft_does(config: DecoderConfig, kind: AdapterKind, router: bool) -> None:
    spec = AdapterSpec(kind=kind, rank=3, alpha=6.0, seed=9, train_router=router)
    adapter = make_adapter(config, spec)
    model = reference_model(adapter)
    tokens = sequences((40, 1, 17), config, 3)
    with torch.no_grad():
        for ours, ids in zip(full_logprobs(adapter.decoder, adapter.low, tokens), tokens, strict=True):
            difference = float((ours - reference_logprobs(model, ids)).abs().max())
            assert difference <= MAX_LOGPROB_DIFFERENCE
    datums = make_datums(config, (30, 1, 17, 3), 5)
    session = TrainingSession(adapter, micro_batches=MicroBatches(units=3))
    session.forward_backward(datums, LossName.CROSS_ENTROPY)
    reference = reference_gradients(model, datums, cross_entropy)
    assert relative_error(gradients(session), reference) <= MAX_GRADIENT_ERROR


@EACH
def test_a_quantised_base_computes_with_what_it_holds(config: DecoderConfig) -> None:
    decoder = small_decoder(config, quantised=True)
    model = hf_model(config, held_weights(config, quantised=True), torch.float64)
    tokens = sequences((40, 1, 17), config, 3)
    with torch.no_grad():
        for ours, ids in zip(full_logprobs(decoder, {}, tokens), tokens, strict=True):
            difference = float((ours - reference_logprobs(model, ids)).abs().max())
            assert difference <= MAX_LOGPROB_DIFFERENCE


@EACH
def test_experts_are_held_in_four_bits(config: DecoderConfig) -> None:
    whole = held_base(small_decoder(config, quantised=False))
    held = held_base(small_decoder(config, quantised=True))
    assert held.linear_weights == whole.linear_weights
    assert held.linears < 0.2 * whole.linears


@EACH
def test_the_model_with_its_experts_apart_is_the_same_model(config: DecoderConfig) -> None:
    weights = held_weights(config, quantised=False)
    (tokens,) = sequences((40,), config, 3)
    with torch.no_grad():
        said = [
            reference_logprobs(hf_model(config, weights, torch.float64, apart=apart), tokens) for apart in (False, True)
        ]
    assert float((said[0] - said[1]).abs().max()) <= 5e-6  # transformers' shares are fp32 at most
