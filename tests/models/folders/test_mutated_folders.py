"""Folders with a value changed, lost or of another type: read as they are, or refused with an error of our own."""

from __future__ import annotations

import copy
import json
import random
import shutil
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from made_tokenizers import byte_level, model_folder

from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.renderers.model_text import ModelText
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.types.errors import ConfigError, TinsmithError

pytestmark = pytest.mark.filterwarnings("ignore")

VALUES: list[Any] = [None, True, 0, -1, 10**9, 2**63, 10**40, 1e308, float("nan"), "", "x", "\x00", [], {}, [[]], [{}]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("whole") / "model", byte_level(added=["straße"]))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with a key of it, those that lie outside first."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    yield from ((value, key) for key in keys)
    for key in keys:
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def mutated(value: Any, rng: random.Random) -> Any:
    changed = copy.deepcopy(value)
    outside = list(places(changed))
    container, key = outside[min(rng.randrange(len(outside)), rng.randrange(len(outside)))]
    if rng.random() < 0.2:
        del container[key]
    else:
        container[key] = copy.deepcopy(rng.choice(VALUES))
    return changed


def read(folder: Path) -> None:
    with suppress(TinsmithError):
        read_weights(folder, read_config(folder))


@pytest.mark.parametrize("seed", range(3))
def test_no_config_breaks_the_reader(folder: Path, seed: int) -> None:
    rng, file = random.Random(seed), folder / "config.json"
    values = json.loads(file.read_text())
    for _ in range(60):
        file.write_text(json.dumps(mutated(values, rng)))
        read(folder)


@pytest.mark.parametrize("seed", range(3))
def test_no_header_breaks_the_reader(folder: Path, seed: int) -> None:
    rng, file = random.Random(seed), folder / "model.safetensors"
    content = file.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    for _ in range(60):
        changed = json.dumps(mutated(header, rng)).encode()
        told = rng.choice([len(changed), len(changed), 0, 2**63, len(changed) + 8])
        file.write_bytes(struct.pack("<Q", told) + changed + content[8 + size :])
        read(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_no_tokenizer_breaks_the_reader(folder: Path, name: str) -> None:
    rng, file = random.Random(5), folder / name
    values = json.loads(file.read_text())
    for _ in range(60):
        file.write_text(json.dumps(mutated(values, rng)))
        with suppress(TinsmithError):
            text = ModelText(load_tokenizer(folder), num_rows=300)
            text.codec.decode(text.prompt("Hello wörld <|end|>"))


@pytest.mark.parametrize(
    ("field", "value"), [("num_hidden_layers", 10**9), ("vocab_size", 10**12), ("max_position_embeddings", 10**10)]
)
def test_a_config_out_of_proportion_is_refused_by_name(folder: Path, field: str, value: int) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(ConfigError) as caught:
        read_config(folder)
    assert caught.value.value == value
