"""GGUF files that cannot be used: each is one clear error of at most five lines, and leaves nothing behind."""

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType

from gguf_files import VOCAB, write_gguf, write_one
from oracles import LLAMA, OLMOE, QWEN2, QWEN3, QWEN3_MOE, random_weights
from tinsmith.models.base import open_base
from tinsmith.models.config import DecoderConfig, Llama3Scaling
from tinsmith.models.gguf import writing
from tinsmith.models.published.sources import find_model
from tinsmith.types.errors import CheckpointError, ConfigError, TinsmithError

_SMALL = replace(LLAMA, vocab_size=VOCAB, intermediate_size=96, end_tokens=(0,))
_OLMOE, _QWEN3_MOE = (replace(config, vocab_size=VOCAB, end_tokens=(0,)) for config in (OLMOE, QWEN3_MOE))


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    write_gguf(path, _SMALL, random_weights(_SMALL, 1))
    return path


def refused(path: Path, kind: type[TinsmithError], *says: str) -> None:
    with pytest.raises(kind) as caught:
        open_base(str(path))
    message = str(caught.value)
    for text in (str(path), *says):
        assert text in message
    home = path.parent / "home"
    assert not home.exists() or not [each for each in home.rglob("*") if each.suffix == ".json"]


@pytest.mark.parametrize("kept", [3, 4, 20, 24, 60, 3000, 0.5, 0.99, -1])
def test_a_file_that_is_cut_short_is_refused(file: Path, kept: float) -> None:
    whole = file.read_bytes()
    size = int(kept * len(whole)) if isinstance(kept, float) else kept
    file.write_bytes(whole[:size])
    refused(file, CheckpointError, "fetch the whole file again")


@pytest.mark.parametrize(("content", "says"), [(b"", ""), (b"PK\x03\x04" + bytes(1000), "no GGUF file")])
def test_another_file_is_refused(file: Path, content: bytes, says: str) -> None:
    file.write_bytes(content)
    refused(file, CheckpointError, says)


def test_a_file_without_tokenizer_is_refused(file: Path) -> None:
    write_gguf(file, _SMALL, random_weights(_SMALL, 1), tokenizer=False)
    refused(file, ConfigError, "no tokenizer")


@pytest.mark.parametrize("architecture", ["gemma3", "gemma2", "gpt2", "qwen2moe", "phi3", "llama4"])
def test_other_architectures_are_refused_by_name_with_the_list(file: Path, architecture: str) -> None:
    write_gguf(file, _SMALL, random_weights(_SMALL, 1), architecture=architecture)
    refused(file, ConfigError, architecture, "Llama", "Mistral", "Qwen2.5", "Qwen3")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.rope.scaling.type", "yarn"),
        ("llama.rope.scaling.attn_factor", 1.19),
        ("llama.attention.value_length", 8),
        ("llama.attention.causal", 0),
        ("llama.expert_count", 8),
        ("tokenizer.ggml.pre", "poro-chat"),
        ("split.count", 3),
    ],
)
def test_what_cannot_be_computed_is_refused_by_key(file: Path, key: str, value: int | str) -> None:
    write_gguf(file, _SMALL, random_weights(_SMALL, 1), more={key: value})
    refused(file, ConfigError, key, str(value))


def test_factors_of_an_unknown_rotation_are_refused(file: Path) -> None:
    factors = (1.0, 2.0, 3.0, 1.0, 5.0, 1.0, 2.0, 9.0)
    write_gguf(file, _SMALL, random_weights(_SMALL, 1), rope_factors=factors)
    refused(file, ConfigError, "rope_freqs.weight")


@pytest.mark.parametrize(("config", "name"), [(_SMALL, "mlp.up_proj"), (_OLMOE, "mlp.gate")], ids=["dense", "mixture"])
def test_a_tensor_that_is_missing_is_named(file: Path, config: DecoderConfig, name: str) -> None:
    weights = random_weights(config, 1)
    del weights[f"model.layers.1.{name}.weight"]
    write_gguf(file, config, weights)
    refused(file, CheckpointError, f"model.layers.1.{name}.weight", "missing")


@pytest.mark.parametrize(
    ("config", "more", "says"),
    [
        (_QWEN3_MOE, {"qwen3moe.expert_shared_count": 1}, "shared experts"),
        (_QWEN3_MOE, {"qwen3moe.expert_shared_feed_forward_length": 64}, "shared experts"),
        (_QWEN3_MOE, {"qwen3moe.expert_gating_func": 2}, "expert_gating_func"),
        (_QWEN3_MOE, {"qwen3moe.expert_weights_scale": 2.5}, "expert_weights_scale"),
        (_OLMOE, {"olmoe.attention.clamp_kqv": 8.0}, "clamp_kqv"),
        (_OLMOE, {"olmoe.expert_used_count": 99}, "more experts than there are"),
        (_OLMOE, {"olmoe.expert_count": 63}, "missing"),
    ],
)
def test_what_cannot_be_computed_of_mixtures_is_refused_by_name(
    file: Path, config: DecoderConfig, more: dict[str, int | float], says: str
) -> None:
    write_gguf(file, config, random_weights(config, 1), more=more)
    with pytest.raises(TinsmithError, match=says):
        open_base(str(file))


def test_a_type_that_the_library_cannot_decode_is_refused(file: Path) -> None:
    write_one(file, np.zeros((1, 292), dtype=np.uint8), Type.Q8_K)
    refused(file, ConfigError, "Q8_K")


_OWN_LLAMA3 = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=32)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (replace(QWEN3, qkv_bias=True, o_bias=True), "attention_bias"),
        (replace(_OLMOE, num_kv_heads=OLMOE.num_heads, qkv_bias=True, o_bias=True), "attention_bias"),
        (replace(QWEN2, rope_scaling=_OWN_LLAMA3), "rope_scaling"),
        (replace(QWEN2, head_dim=32), "head_dim"),
        (replace(_OLMOE, num_kv_heads=OLMOE.num_heads, tied=True), "tie_word_embeddings"),
        (_OLMOE, "num_key_value_heads"),
    ],
)
def test_what_llama_cpp_has_no_place_for_is_not_written(config: DecoderConfig, field: str, tmp_path: Path) -> None:
    path = tmp_path / "out" / "m.gguf"
    with pytest.raises(ConfigError) as caught:
        writing.write_gguf(path, config, random_weights(config, 1), {}, stored_as=writing.StoredAs.F32, name="m")
    assert caught.value.field == field
    assert not path.parent.exists()


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def info(name: str, dims: tuple[int, ...], offset: int, kind: Type = Type.F32) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def entry(key: str, kind: GGUFValueType, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def listed(kind: GGUFValueType, count: int) -> bytes:
    return struct.pack("<IQ", kind, count)


_ONE = entry("one", GGUFValueType.UINT32, struct.pack("<I", 1))


@pytest.mark.parametrize(
    ("keys", "tensors", "says"),
    [
        ([], [info("w", (), 0)], "w has not one to four dimensions"),
        ([], [info("w", (1, 1, 1, 1, 1), 0)], "w has not one to four dimensions"),
        ([], [info("a", (8,), 0), info("b", (8,), 0)], "a and b share bytes"),
        ([], [info("a", (9,), 32), info("b", (8,), 0), info("c", (8,), 64)], "a and c share bytes"),
        ([], [info("a", (4,), 3)], "a does not begin at a multiple of 32"),
        ([], [info("a", (8,), 0), info("a", (4,), 64)], "a tensor stands there twice"),
        ([], [info("a", (2**63 - 1,), 0)], "cut short"),
        ([], [info("a", (2**32, 2**32), 0)], "cut short"),
        ([], [info("a", (8,), 2**64 - 32)], "cut short"),
        ([], [info("a", (8, 0), 0)], "cannot have this shape"),
        ([_ONE, _ONE], [], "a key stands there twice"),
        ([entry("k", GGUFValueType.ARRAY, listed(GGUFValueType.STRING, 2**63 - 1))], [], "run over the end"),
        ([entry("k", GGUFValueType.ARRAY, listed(GGUFValueType.UINT8, 2**63 - 1))], [], "run over the end"),
        ([entry("k", GGUFValueType.ARRAY, listed(GGUFValueType.ARRAY, 1))], [], "unknown value type"),
        ([entry("k", GGUFValueType.STRING, struct.pack("<Q", 2**63 - 1))], [], "run over the end"),
        ([entry("general.alignment", GGUFValueType.UINT32, struct.pack("<I", 33))], [], "power of two"),
        ([entry("general.alignment", GGUFValueType.UINT32, struct.pack("<I", 2**31))], [], "power of two"),
    ],
)
def test_a_header_that_lies_is_refused_by_what_it_says(
    keys: list[bytes], tensors: list[bytes], says: str, tmp_path: Path
) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    (tmp_path / "m.gguf").write_bytes(head + b"".join([*keys, *tensors]) + bytes(4096))
    refused(tmp_path / "m.gguf", CheckpointError, says)


@pytest.mark.parametrize(("num_tensors", "num_keys"), [(2**63 - 1, 0), (0, 2**63 - 1), (2**64 - 1, 2**64 - 1)])
def test_more_keys_or_tensors_than_fit_are_refused(num_tensors: int, num_keys: int, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_keys) + bytes(4096))
    refused(tmp_path / "m.gguf", CheckpointError, "run over the end")


@pytest.mark.parametrize(
    "key", ["block_count", "embedding_length", "feed_forward_length", "attention.key_length", "attention.head_count"]
)
def test_a_size_that_no_tensor_has_is_refused_before_anything_is_made_of_it(file: Path, key: str) -> None:
    write_gguf(file, _SMALL, random_weights(_SMALL, 1), more={f"llama.{key}": 2**31 - 2})
    refused(file, TinsmithError, key.rpartition(".")[2])


def test_a_file_that_is_not_there_is_refused_as_a_name_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"field: model = '.*/none\.gguf'"):
        find_model(str(tmp_path / "none.gguf"))
