"""One small whole GGUF file of each kind of vocabulary, with the places of its numbers and keys, and how it is read."""

import struct
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType
from tokenizer_kinds import converted, write_metadata

from gguf_files import finish
from tinsmith.models.gguf.file import read_gguf
from tinsmith.models.gguf.model import read_model
from tinsmith.models.gguf.tokenizer import file_tokenizer

_WIDTH, _HEADS, _INNER, _LAYERS = 32, 4, 64, 2
_SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_FEW = 12
"""Strings of a list whose lengths are changed one by one."""


def read(path: Path) -> None:
    """Read all of a file: shape, weights, tokenizer and templates."""
    file = read_gguf(path)
    read_model(file)
    tokenizer = file_tokenizer(file.metadata, path)
    tokenizer.decode(tokenizer.encode("a text, <|end|> \U0001f642\x00"))


def good(*, llama: bool = False) -> tuple[bytes, tuple[tuple[int, int], ...], tuple[tuple[int, int, int], ...]]:
    """Return a file's bytes, the places of its numbers, and those of its keys and tensors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "good.gguf"
        _write(path, converted("llama2" if llama else "llama3"))
        data = path.read_bytes()
    return (data, *_places(data))


def _write(path: Path, tokenizer: dict[str, object]) -> None:
    tokens = tokenizer["tokenizer.ggml.tokens"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("good")
    writer.add_context_length(128)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    write_metadata(writer, tokenizer)
    writer.add_string("tokenizer.chat_template", "{{ messages }}")
    writer.add_string("tokenizer.chat_template.tool_use", "{{ tools }}")
    shapes = {"token_embd.weight": (len(tokens), _WIDTH), "output_norm.weight": (_WIDTH,)}
    for layer in range(_LAYERS):
        inner = {"attn_norm": (_WIDTH,), "ffn_norm": (_WIDTH,), "ffn_down": (_WIDTH, _INNER)}
        inner |= dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (_WIDTH, _WIDTH))
        inner |= dict.fromkeys(("ffn_gate", "ffn_up"), (_INNER, _WIDTH))
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in inner.items()}
    for name, shape in shapes.items():
        values = np.full(shape, 0.5, dtype=np.float32)
        kind = GGMLQuantizationType.Q8_0 if "ffn" in name and len(shape) == 2 else GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
    finish(writer)


def _places(data: bytes) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int, int], ...]]:
    """Walk through a header by the format's own description."""
    numbers: list[tuple[int, int]] = [(4, 4), (8, 8), (16, 8)]
    entries: list[tuple[int, int, int]] = []
    at = 24

    def number(width: int, *, noted: bool = True) -> int:
        nonlocal at
        numbers.extend([(at, width)] if noted else [])
        at += width
        return int.from_bytes(data[at - width : at], "little")

    def string(*, noted: bool = True) -> None:
        nonlocal at
        length = number(8, noted=noted)
        at += length

    num_tensors, num_keys = struct.unpack_from("<QQ", data, 8)
    for _ in range(num_keys):
        begin = at
        string()
        kind = number(4)
        if kind == GGUFValueType.ARRAY:
            kind, count = number(4), number(8)
            for index in range(count):
                string(noted=index < _FEW) if kind == GGUFValueType.STRING else number(
                    _SCALARS[kind], noted=index < _FEW
                )
        elif kind == GGUFValueType.STRING:
            string()
        else:
            number(_SCALARS[kind])
        entries.append((begin, at, 16))
    for _ in range(num_tensors):
        begin = at
        string()
        for _ in range(number(4)):
            number(8)
        number(4)
        number(8)
        entries.append((begin, at, 8))
    return tuple(numbers), tuple(entries)
