"""GGUF files against transformers' own reading of them, and against the folder of the same model."""

import warnings
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type

from gguf_files import VOCAB, small_tokenizer, write_gguf
from oracles import LLAMA, QWEN2, QWEN3, full_logprobs, hf_model, random_weights, sequences
from tinsmith.models.base import OpenedBase, open_base, read_shape, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family, LinearScaling, Llama3Scaling
from tinsmith.models.gguf.file import read_gguf, tensors_of
from tinsmith.ops.native import NativeKernels
from tinsmith.renderers.tokenizer import load_tokenizer

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
    for ours, asked in zip(logprobs(opened, tokens), tokens, strict=True):
        difference = (ours.double() - hf_logprobs(theirs, asked)).abs().max()
        assert difference <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize(
    "config",
    [
        *FAMILIES.values(),
        LLAMA3,
        replace(_QWEN3, head_dim=24),
        replace(_LLAMA, qkv_bias=True, o_bias=True, mlp_bias=True),
        replace(_LLAMA, head_dim=32),
    ],
    ids=[*FAMILIES, "llama3_rope", "wide_heads", "biases", "llama_wide_heads"],
)
def test_a_file_of_fp32_holds_the_model_it_was_written_from(config: DecoderConfig, tmp_path: Path) -> None:
    path = written(tmp_path, config)
    opened = open_base(str(path))
    family = Family.LLAMA if config.family is Family.MISTRAL else config.family
    assert opened.config == replace(config, family=family)
    assert read_shape(str(path)) == opened.config
    for name, tensor in random_weights(config, 1).items():
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
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_tensor("one", stored, raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with np.errstate(all="ignore"):
        found = dict(tensors_of(read_gguf(tmp_path / "one.gguf"), {"one"}))["one"]
    assert found.shape == (rows, columns)
    assert np.array_equal(found, decoded.reshape(rows, columns), equal_nan=True)


def test_the_tokenizer_comes_out_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, _LLAMA)
    folder = open_base(str(path)).folder
    assert folder is not None
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
    assert first is not None
    before = (first / "tokenizer.json").stat().st_mtime_ns
    other = tmp_path / "elsewhere"
    other.mkdir()
    again = open_base(str(path.rename(other / "other.gguf"))).folder
    assert again == first
    assert (first / "tokenizer.json").stat().st_mtime_ns == before
