"""Tokens over a GGUF file against tokens over the tokenizer.json it was made of, both ways."""

from itertools import pairwise
from pathlib import Path

import gguf
import pytest
from tokenizer_kinds import KINDS, SPACE, converted, texts, tokenizer, write_metadata
from tokenizers import Tokenizer

from tinsmith.models.gguf.file import read_gguf
from tinsmith.models.gguf.tokenizer import file_tokenizer, tokenizer_folder
from tinsmith.models.gguf.vocabulary import vocabulary_of

COUNT = 200


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", KINDS)
def test_an_exported_tokenizer_is_read_back_as_the_same(name: str) -> None:
    wanted = tokenizer(name)
    keys = vocabulary_of(wanted, len(wanted) + 3, (), where=None)
    read = file_tokenizer(keys, None)
    for text in texts(KINDS[name], COUNT, 1):
        assert read(text)["input_ids"] == wanted(text)["input_ids"], repr(text)
        plain = wanted(text, add_special_tokens=False)["input_ids"]
        assert read(text, add_special_tokens=False)["input_ids"] == plain, repr(text)
        assert read.decode(plain) == wanted.decode(plain), repr(text)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.composes])
def test_a_converted_file_becomes_a_tokenizer_json_with_the_same_tokens(name: str, tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    write_metadata(writer, converted(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    folder = tokenizer_folder(read_gguf(tmp_path / "one.gguf"))
    read, wanted = Tokenizer.from_file(str(folder / "tokenizer.json")), tokenizer(name).backend_tokenizer
    for text in texts(KINDS[name], COUNT, 2):
        assert read.encode(text).ids == wanted.encode(text).ids, repr(text)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.model == "llama"])
def test_sentencepiece_vocabularies_join_the_best_pair_first(name: str) -> None:
    keys = converted(name)
    read = file_tokenizer(keys, None)  # pyright: ignore[reportArgumentType]
    for text in texts(KINDS[name], COUNT, 3):
        if any(mark in text for mark in (*KINDS[name].marks, "<tool>", "</tool>")):
            continue
        wanted = joined(f" {text}" if keys["tokenizer.ggml.add_space_prefix"] else text, keys)
        assert read.encode(text, add_special_tokens=False) == wanted, repr(text)


def joined(text: str, keys: dict[str, object]) -> list[int]:
    """Join the best-scored neighbours that make a token, the first of several, as long as there are any; then bytes."""
    tokens, scores = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.scores"]
    ids = {token: index for index, token in enumerate(tokens)}
    parts = list(text.replace(" ", SPACE))
    while pairs := [(-scores[ids[a + b]], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in ids]:
        _, at = min(pairs)
        parts[at : at + 2] = ["".join(parts[at : at + 2])]
    found = ([ids[part]] if part in ids else [ids[f"<0x{byte:02X}>"] for byte in part.encode()] for part in parts)
    return [index for each in found for index in each]
