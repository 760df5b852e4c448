"""Mixtures in GGUF files: against transformers' own reading of them, and against what was written."""

import warnings
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Type

from gguf_files import VOCAB, small_tokenizer, write_gguf
from oracles import LLAMA, OLMOE, QWEN3_MOE, experts_together, random_weights
from tinsmith.models.base import open_base, read_shape
from tinsmith.models.config import DecoderConfig, Mixture
from tinsmith.models.gguf.file import read_gguf
from tinsmith.models.gguf.model import stored_model
from tinsmith.models.gguf.writing import StoredAs
from tinsmith.models.gguf.writing import write_gguf as export_gguf
from tinsmith.models.in_turn import RowsInTurn
from tinsmith.types.errors import CheckpointError, ConfigError, TinsmithError

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("own_home")]

END = 0


def _sized(config: DecoderConfig, mixture: Mixture | None, **changes: int) -> DecoderConfig:
    """With a vocabulary, and widths that are whole blocks of every type."""
    return replace(config, vocab_size=VOCAB, end_tokens=(END,), mixture=mixture, **changes)


_SMALL = Mixture(num_experts=8, num_active=2, expert_size=32, normalised=True)
_LARGE = Mixture(num_experts=64, num_active=8, expert_size=32, normalised=False)
QWEN3 = _sized(QWEN3_MOE, _SMALL, head_dim=128, intermediate_size=96)
"""transformers takes a head of 128 for granted in these files."""
FAMILIES = {
    "qwen3moe": QWEN3,
    "qwen3moe_64": replace(QWEN3, mixture=replace(_LARGE, normalised=True), num_layers=1),
    "olmoe": _sized(OLMOE, replace(_SMALL, normalised=False), intermediate_size=32),
    "olmoe_64": _sized(OLMOE, _LARGE, intermediate_size=32),
}


def written(folder: Path, config: DecoderConfig, **how: object) -> Path:
    path = folder / "model.gguf"
    write_gguf(path, config, random_weights(config, 1), **how)  # pyright: ignore[reportArgumentType]
    return path


@pytest.mark.parametrize("config", FAMILIES.values(), ids=list(FAMILIES))
def test_a_file_of_fp32_holds_the_model_it_was_written_from(config: DecoderConfig, tmp_path: Path) -> None:
    path = written(tmp_path, config)
    opened = open_base(str(path))
    assert opened.config == config
    assert read_shape(str(path)) == config
    weights = random_weights(config, 1)
    assert list(opened.weights) == list(weights)
    for name, tensor in weights.items():
        assert torch.equal(opened.weights[name], tensor), name


@pytest.mark.parametrize("type", [Type.BF16, Type.Q4_1])
def test_weights_are_those_that_transformers_reads_from_the_same_file(type: Type, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    # transformers passes over the width of an expert, and takes Qwen3-30B-A3B's for granted.
    config = replace(QWEN3, num_layers=1, mixture=replace(_SMALL, expert_size=768))
    path = written(tmp_path, config, type=type)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name, dtype=torch.float32).state_dict()
    opened = open_base(str(path))
    ours = experts_together(dict(opened.weights), opened.config)
    assert set(ours) == set(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("type", [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0])
def test_experts_are_decoded_as_the_library_decodes_them(type: Type, tmp_path: Path) -> None:
    config = FAMILIES["olmoe"]
    read = stored_model(read_gguf(written(tmp_path, config, type=type)))[1]
    assert isinstance(read, RowsInTurn)
    for name, tensor in random_weights(config, 1).items():
        if ".experts." in name:
            wanted = torch.from_numpy(gguf.dequantize(gguf.quantize(tensor.numpy(), type), type))
            assert torch.equal(read[name], wanted), name
            assert torch.equal(read.read_rows(name, 5, 17), wanted[5:17]), name


@pytest.mark.parametrize("stored_as", StoredAs)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_exported_is_read_back(family: str, stored_as: StoredAs, tmp_path: Path) -> None:
    config, path = FAMILIES[family], tmp_path / "model.gguf"
    weights = random_weights(config, 2)
    export_gguf(path, config, weights, {}, stored_as=stored_as, name="made up")
    file = read_gguf(path)
    read_config, read = stored_model(file)
    assert replace(read_config, end_tokens=config.end_tokens) == config
    for name, tensor in weights.items():
        rounded = stored_as is StoredAs.F16 and tensor.ndim == 2 and "mlp.gate." not in name
        assert torch.equal(read[name], tensor.half().float() if rounded else tensor), name
    assert file.tensors["blk.0.ffn_gate_inp.weight"].type is Type.F32


@pytest.mark.parametrize(
    ("family", "changes", "field"),
    [
        ("qwen3moe", {"normalised": False}, "norm_topk_prob"),
        ("olmoe", {"normalised": True}, "norm_topk_prob"),
        ("qwen3moe", {"dense_layers": (1,)}, "dense_layers"),
    ],
)
def test_what_llama_cpp_would_compute_otherwise_is_not_exported(
    family: str, changes: dict[str, object], field: str, tmp_path: Path
) -> None:
    config = FAMILIES[family]
    assert config.mixture is not None
    other = replace(config, mixture=replace(config.mixture, **changes))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError) as caught:
        export_gguf(tmp_path / "a.gguf", other, random_weights(other, 1), {}, stored_as=StoredAs.F32, name="a")
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("family", "more", "says"),
    [
        ("qwen3moe", {"qwen3moe.expert_shared_count": 1}, "shared experts"),
        ("qwen3moe", {"qwen3moe.expert_shared_feed_forward_length": 64}, "shared experts"),
        ("qwen3moe", {"qwen3moe.expert_gating_func": 2}, "expert_gating_func"),
        ("qwen3moe", {"qwen3moe.expert_weights_scale": 2.5}, "expert_weights_scale"),
        ("olmoe", {"olmoe.attention.clamp_kqv": 8.0}, "clamp_kqv"),
        ("olmoe", {"olmoe.expert_used_count": 9}, "more experts than there are"),
        ("olmoe", {"olmoe.expert_count": 7}, "missing"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(
    family: str, more: dict[str, int | float], says: str, tmp_path: Path
) -> None:
    path = written(tmp_path, FAMILIES[family], more=more)
    with pytest.raises(TinsmithError, match=says):
        open_base(str(path))


def test_a_dense_architecture_with_experts_is_refused(tmp_path: Path) -> None:
    config = replace(LLAMA, vocab_size=VOCAB, end_tokens=(END,))
    path = written(tmp_path, config, more={"llama.expert_count": 8})
    with pytest.raises(ConfigError, match="mixtures of this architecture"):
        open_base(str(path))


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    config = FAMILIES["olmoe"]
    weights = random_weights(config, 1)
    del weights["model.layers.1.mlp.gate.weight"]
    write_gguf(tmp_path / "model.gguf", config, weights)
    with pytest.raises(CheckpointError) as caught:
        open_base(str(tmp_path / "model.gguf"))
    assert caught.value.field == "model.layers.1.mlp.gate.weight"


def test_the_tokenizer_comes_out_of_the_file(tmp_path: Path) -> None:
    from tinsmith.models.base import tokenizer_of

    path = written(tmp_path, FAMILIES["qwen3moe"])
    assert tokenizer_of(str(path)).get_vocab() == small_tokenizer().get_vocab()
