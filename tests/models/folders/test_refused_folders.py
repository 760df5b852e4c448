"""Folders that say a thing twice, or numbers that no model has: refused by the file and the name."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_tokenizers import byte_level, model_folder

from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.types.errors import CheckpointError, ConfigError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("whole") / "model", byte_level(added=["straße"]))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_hidden_layers", 10**9),
        ("vocab_size", 10**12),
        ("max_position_embeddings", 10**10),
        ("rms_norm_eps", float("inf")),
        ("rope_theta", float("inf")),
    ],
)
def test_a_config_out_of_proportion_is_refused_by_name(folder: Path, field: str, value: float) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(ConfigError) as caught:
        read_config(folder)
    assert caught.value.value == value


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json"])
def test_a_file_with_a_key_twice_is_refused_by_the_key(folder: Path, name: str) -> None:
    file = folder / name
    text = file.read_text()
    key = next(iter(json.loads(text)))
    file.write_text(text.replace("{", f'{{"{key}": null, ', 1))
    with pytest.raises(ConfigError, match=f"{key}"):
        (read_config if name == "config.json" else load_tokenizer)(folder)


def test_a_header_that_names_a_tensor_twice_is_refused(folder: Path) -> None:
    file = folder / "model.safetensors"
    content = file.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    name = next(key for key in header if key != "__metadata__")
    twice = json.dumps({"x": header[name], **header}).replace('"x"', f'"{name}"', 1).encode()
    file.write_bytes(struct.pack("<Q", len(twice)) + twice + content[8 + size :])
    with pytest.raises(CheckpointError, match=name):
        read_weights(folder, read_config(folder))


def _dropout(values: Any) -> None:
    values["model"]["dropout"] = 0.5


def _shared_id(values: Any) -> None:
    values["model"]["vocab"]["a"] = values["model"]["vocab"]["b"]


def _moved(values: Any) -> None:
    values["added_tokens"][1]["id"] = 200


def _renamed(values: Any) -> None:
    values["added_tokens"][1]["content"] = "<|renamed|>"


@pytest.mark.parametrize(
    ("change", "message"),
    [(_dropout, "dropout"), (_shared_id, "two tokens have one id"), (_moved, "= 200"), (_renamed, "renamed")],
)
def test_a_tokenizer_that_would_be_another_than_its_file_says_is_refused(
    folder: Path, change: Callable[[Any], None], message: str
) -> None:
    file = folder / "tokenizer.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))
    with pytest.raises(ConfigError, match=message):
        load_tokenizer(folder)
