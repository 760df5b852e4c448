"""Tokens over a GGUF file against tokens over the tokenizer.json it was made of, both ways."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
from tokenizer_kinds import KINDS, converted, texts, tokenizer, write_metadata
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
