"""Tokenizers in the hub's local cache: found by transformers without network, and nobody else's entry is touched."""

from pathlib import Path

import pytest

from gguf_files import small_tokenizer
from tinsmith.models.published.hub_cache import offer_tokenizer, tokenizer_key
from tinsmith.renderers.tokenizer import preset_tokenizer, save_tokenizer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tokenizer(small_tokenizer(), tmp_path / "model")
    return tmp_path / "model"


def loaded(name: str) -> int:
    from transformers import AutoTokenizer

    return len(AutoTokenizer.from_pretrained(name, fast=True))


def test_transformers_finds_what_was_offered_by_its_name(folder: Path) -> None:
    assert offer_tokenizer("some/model", tokenizer_key(folder), lambda: folder)
    assert loaded("some/model") == len(small_tokenizer())


def test_another_tokenizer_takes_its_place(folder: Path, tmp_path: Path) -> None:
    assert offer_tokenizer("some/model", tokenizer_key(folder), lambda: folder)
    other = tmp_path / "other"
    save_tokenizer(preset_tokenizer("nano"), other)
    assert offer_tokenizer("some/model", tokenizer_key(other), lambda: other)
    assert loaded("some/model") == len(preset_tokenizer("nano"))


def test_nothing_is_made_twice(folder: Path) -> None:
    def never() -> Path:
        raise AssertionError

    assert offer_tokenizer("some/model", "key", lambda: folder)
    assert offer_tokenizer("some/model", "key", never)


def test_an_entry_of_somebody_else_is_left_alone(cache: Path, folder: Path) -> None:
    entry = cache / "models--some--model"
    entry.mkdir(parents=True)
    assert not offer_tokenizer("some/model", tokenizer_key(folder), lambda: folder)
    assert not list(entry.iterdir())
