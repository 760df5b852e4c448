"""GGUF files against transformers' own reading of them, and against the folder of the same model."""

import warnings
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type

from gguf_files import VOCAB, small_tokenizer, write_gguf, write_one
from oracles import (
    LLAMA,
    OLMOE,
    QWEN2,
    QWEN3,
    QWEN3_MOE,
    experts_together,
    full_logprobs,
    hf_model,
    random_weights,
    sequences,
)
from tinsmith.models.base import OpenedBase, open_base, read_shape, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family, LinearScaling, Llama3Scaling, Mixture
from tinsmith.models.gguf.file import read_gguf, tensors_of
from tinsmith.models.gguf.model import stored_model
from tinsmith.models.gguf.writing import StoredAs
from tinsmith.models.gguf.writing import write_gguf as export_gguf
from tinsmith.models.in_turn import RowsInTurn
from tinsmith.ops.native import NativeKernels
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.types.errors import ConfigError

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("own_home")]

MAX_LOGPROB_DIFFERENCE = 5e-5
END = 0

_LLAMA = replace(LLAMA, vocab_size=VOCAB, intermediate_size=96, end_tokens=(END,))
_QWEN2 = replace(QWEN2, vocab_size=VOCAB, intermediate_size=96, end_tokens=(END,))
_QWEN3 = replace(QWEN3, vocab_size=VOCAB, intermediate_size=96, head_dim=128, end_tokens=(END,))
"""transformers takes a head of 128 for granted in these files."""

FAMILIES = {
    "llama": _LLAMA,
    "llama_free_head": replace(_LLAMA, tied=False),
    "mistral": replace(_LLAMA, family=Family.MISTRAL, num_layers=3, tied=False),
    "qwen2": _QWEN2,
    "qwen2_tied": replace(_QWEN2, tied=True),
    "qwen3": _QWEN3,
}


def _sized(config: DecoderConfig, mixture: Mixture | None, **changes: int) -> DecoderConfig:
    """With a vocabulary, and widths that are whole blocks of every type."""
    return replace(config, vocab_size=VOCAB, end_tokens=(END,), mixture=mixture, **changes)


_SMALL = Mixture(num_experts=8, num_active=2, expert_size=32, normalised=True)
_LARGE = Mixture(num_experts=64, num_active=8, expert_size=32, normalised=False)
QWEN3_MIXTURE = _sized(QWEN3_MOE, _SMALL, head_dim=128, intermediate_size=96)
"""transformers takes a head of 128 for granted in these files."""
MIXTURES = {
    "qwen3moe": QWEN3_MIXTURE,
    "qwen3moe_64": replace(QWEN3_MIXTURE, mixture=replace(_LARGE, normalised=True), num_layers=1),
    "olmoe": _sized(OLMOE, replace(_SMALL, normalised=False), intermediate_size=32),
    "olmoe_64": _sized(OLMOE, _LARGE, intermediate_size=32),
}

TYPES = (Type.F32, Type.F16, Type.Q4_1, Type.Q4_0)
LLAMA3 = replace(
    _LLAMA,
    rope_theta=500_000.0,
    rope_scaling=Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=8192),
)


def written(folder: Path, config: DecoderConfig, **how: object) -> Path:
    path = folder / "model.gguf"
    write_gguf(path, config, random_weights(config, 1), **how)  # pyright: ignore[reportArgumentType]
    return path


def logprobs(opened: OpenedBase, tokens: list[np.ndarray]) -> list[torch.Tensor]:
    decoder = build_decoder(opened.config, opened.weights, NativeKernels(), quantised=False)
    return full_logprobs(decoder, {}, tokens)


def hf_logprobs(model: torch.nn.Module, tokens: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        logits = model(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0]
    return torch.log_softmax(logits.double(), dim=-1)


@pytest.mark.parametrize(
    ("family", "type"),
    [*((family, Type.Q8_0) for family in FAMILIES), *(("llama", type) for type in TYPES), ("qwen2", Type.Q4_1)],
    ids=str,
)
def test_log_probabilities_are_those_of_transformers_on_the_same_file(family: str, type: Type, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    config = FAMILIES[family]
    path = written(tmp_path, config, type=type)
    opened = open_base(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name, dtype=torch.float32).eval()
    tokens = sequences((40, 1, 17), config, 3)
    for ours, requests in zip(logprobs(opened, tokens), tokens, strict=True):
        difference = (ours.double() - hf_logprobs(theirs, requests)).abs().max()
        assert difference <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize(
    "config",
    [
        *FAMILIES.values(),
        *MIXTURES.values(),
        LLAMA3,
        replace(_QWEN3, head_dim=24),
        replace(_LLAMA, qkv_bias=True, o_bias=True, mlp_bias=True),
        replace(_LLAMA, head_dim=32),
    ],
    ids=[*FAMILIES, *MIXTURES, "llama3_rope", "wide_heads", "biases", "llama_wide_heads"],
)
def test_a_file_of_fp32_holds_the_model_it_was_written_from(config: DecoderConfig, tmp_path: Path) -> None:
    path = written(tmp_path, config)
    opened = open_base(str(path))
    family = Family.LLAMA if config.family is Family.MISTRAL else config.family
    assert opened.config == replace(config, family=family)
    assert read_shape(str(path)) == opened.config
    weights = random_weights(config, 1)
    assert list(opened.weights) == list(weights)
    for name, tensor in weights.items():
        assert torch.equal(opened.weights[name], tensor), name


def test_the_rotation_of_llama3_is_that_of_the_published_settings(tmp_path: Path) -> None:
    opened = open_base(str(written(tmp_path, LLAMA3)))
    tokens = sequences((60,), LLAMA3, 3)
    ours = logprobs(opened, tokens)[0]
    theirs = hf_logprobs(hf_model(LLAMA3, random_weights(LLAMA3, 1)), tokens[0])
    assert (ours.double() - theirs).abs().max() <= MAX_LOGPROB_DIFFERENCE


def test_linear_scaling_is_read_from_its_keys(tmp_path: Path) -> None:
    more = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    assert read_shape(str(written(tmp_path, _LLAMA, more=more))).rope_scaling == LinearScaling(factor=4.0)


@pytest.mark.parametrize("type", [t for t in Type if t.name not in ("Q8_1", "Q8_K")])
def test_every_type_that_the_library_decodes_is_decoded_as_it_does(type: Type, tmp_path: Path) -> None:
    block, block_bytes = gguf.GGML_QUANT_SIZES[type]
    rows, columns = 37, 256 * 3
    stored = np.random.default_rng(1).integers(0, 256, (rows, columns // block * block_bytes), dtype=np.uint8)
    try:
        with np.errstate(all="ignore"):
            decoded = gguf.dequantize(stored, type)
    except NotImplementedError:
        pytest.skip("the library does not decode it")
    write_one(tmp_path / "one.gguf", stored, type)
    with np.errstate(all="ignore"):
        found = dict(tensors_of(read_gguf(tmp_path / "one.gguf"), {"one"}))["one"]
    assert found.shape == (rows, columns)
    assert np.array_equal(found, decoded.reshape(rows, columns), equal_nan=True)


@pytest.mark.parametrize("config", [_LLAMA, QWEN3_MIXTURE], ids=["llama", "qwen3moe"])
def test_the_tokenizer_comes_out_of_the_file(config: DecoderConfig, tmp_path: Path) -> None:
    path = written(tmp_path, config)
    folder = open_base(str(path)).folder
    assert folder.is_relative_to(tmp_path / "home")
    read, wanted = load_tokenizer(folder), small_tokenizer()
    assert read.eos_token_id == END
    assert read.chat_template == wanted.chat_template
    for text in ("Hello there", "a  12 345", "  7", "grün & ☃\n\n\tx", "it's <|end|> 1<|user|>", ""):
        assert read.encode(text, add_special_tokens=False) == wanted.encode(text), text
        assert read.decode(read.encode(text, add_special_tokens=False)) == text
    assert tokenizer_of(str(path)).get_vocab() == wanted.get_vocab()


def test_a_tokenizer_is_converted_once_for_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, _LLAMA)
    first = open_base(str(path)).folder
    before = (first / "tokenizer.json").stat().st_mtime_ns
    other = tmp_path / "elsewhere"
    other.mkdir()
    again = open_base(str(path.rename(other / "other.gguf"))).folder
    assert again == first
    assert (first / "tokenizer.json").stat().st_mtime_ns == before


# Mixtures


@pytest.mark.parametrize("type", [Type.BF16, Type.Q4_1])
def test_weights_of_mixtures_are_those_that_transformers_reads_from_the_same_file(type: Type, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    # transformers passes over the width of an expert, and takes Qwen3-30B-A3B's for granted.
    config = replace(QWEN3_MIXTURE, num_layers=1, mixture=replace(_SMALL, expert_size=768))
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
    config = MIXTURES["olmoe"]
    read = stored_model(read_gguf(written(tmp_path, config, type=type)))[1]
    assert isinstance(read, RowsInTurn)
    for name, tensor in random_weights(config, 1).items():
        if ".experts." in name:
            wanted = torch.from_numpy(gguf.dequantize(gguf.quantize(tensor.numpy(), type), type))
            assert torch.equal(read[name], wanted), name
            assert torch.equal(read.read_rows(name, 5, 17), wanted[5:17]), name


EXPORTED = {
    name: replace(config, num_kv_heads=config.num_heads) if config.family is Family.OLMOE else config
    for name, config in MIXTURES.items()
}
"""Mixtures whose tensors have the shapes that llama.cpp has for them."""


@pytest.mark.parametrize("stored_as", StoredAs)
@pytest.mark.parametrize("family", MIXTURES)
def test_a_mixture_that_is_exported_is_read_back(family: str, stored_as: StoredAs, tmp_path: Path) -> None:
    config, path = EXPORTED[family], tmp_path / "model.gguf"
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
    config = EXPORTED[family]
    assert config.mixture is not None
    other = replace(config, mixture=replace(config.mixture, **changes))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError) as caught:
        export_gguf(tmp_path / "a.gguf", other, random_weights(other, 1), {}, stored_as=StoredAs.F32, name="a")
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []
