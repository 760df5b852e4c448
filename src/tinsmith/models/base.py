"""Base model of an adapter: its identity, and its weights read from the place that its name leads to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.folder import stored_weights, weights_fingerprint
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.gguf.file import read_gguf
from tinsmith.models.gguf.model import read_decoder, stored_model
from tinsmith.models.gguf.tokenizer import tokenizer_folder
from tinsmith.models.in_turn import RowsInTurn
from tinsmith.models.initial_weights import drawn_weights
from tinsmith.models.presets import PRESETS
from tinsmith.models.published.packaged import PREFIX
from tinsmith.models.published.sources import Kind, Source, find_model
from tinsmith.renderers.tokenizer import load_tokenizer, preset_tokenizer
from tinsmith.types.arithmetic import Hold
from tinsmith.types.errors import CheckpointError, ConfigError
from tinsmith.types.fingerprints import sha256_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModel:
    """Identity of a base model: equal fingerprints mean the same function, whatever its name."""

    name: str
    """Folder, file, name (`tinsmith/nano`, `tinsmith/smollm2`, ORG/NAME), or a server's name for it."""
    fingerprint: str
    """SHA-256 of the fp32 weights before any quantisation: `folder.weights_fingerprint`."""
    config_sha256: str
    """SHA-256 of the `DecoderConfig`."""
    seed: int | None = None
    """Seed of a built-in model's initial weights; None for all others."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("a base model needs a name", field="base.name", value=self.name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedBase:
    """Base model in memory."""

    identity: BaseModel
    config: DecoderConfig
    weights: Mapping[str, Tensor]
    """fp32 by published name, or a form that is widened to fp32 on each access."""
    folder: Path | None
    """Folder of its tokenizer; None for a built-in model, whose tokenizer is built in too."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredBase:
    """Base model on disk, to be read in parts."""

    name: str
    config: DecoderConfig
    weights: Mapping[str, Tensor]
    """fp32 by published name; each is read on access."""
    folder: Path | None
    """Folder of its tokenizer; None for a built-in model, whose tokenizer is built in too."""
    seed: int | None = None
    """Seed of a built-in model's initial weights."""

    def identity(self) -> BaseModel:
        """Return the identity of the whole model; reads all weights, one at a time."""
        return identify(self.name, self.config, self.weights, seed=self.seed)


def identify(name: str, config: DecoderConfig, weights: Mapping[str, Tensor], *, seed: int | None = None) -> BaseModel:
    """Return the identity of weights in memory; hashes all of them."""
    return BaseModel(name=name, fingerprint=weights_fingerprint(weights), config_sha256=sha256_of(config), seed=seed)


def stored_base(name: str, *, seed: int | None = None, hold: Hold = Hold.FP32) -> StoredBase:
    """Locate the model for `name`; a built-in one is drawn from `seed` (default 0). No weights are read yet.

    `hold` is the storage format allowed to a decoder built from its weights.

    Raises:
        ConfigError: there is no such model, or it is not supported.
        CheckpointError: its files are damaged.
    """
    source = find_model(name)
    if source.path is None:
        config, seed = PRESETS[name.removeprefix(PREFIX)], seed or 0
        weights = drawn_weights(config, seed)
        return StoredBase(name=name, config=config, weights=weights, folder=None, seed=seed)
    if source.kind is Kind.GGUF:
        file = read_gguf(source.path)
        config, weights = stored_model(file)
        config = _as_published(config, source)
        folder = tokenizer_folder(file)
    else:
        config = read_config(source.path)
        weights = stored_weights(source.path, config)
        folder = source.path
    weights = weights if hold is Hold.PUBLISHED else weights.as_fp32()
    return StoredBase(name=name, config=config, weights=weights, folder=folder)


def open_base(name: str, *, seed: int | None = None, hold: Hold = Hold.FP32) -> OpenedBase:
    """Read the model for `name`; a built-in one is drawn from `seed` (default 0).

    Raises:
        ConfigError: there is no such model, or it is not supported.
        CheckpointError: the weights are damaged.
    """
    stored = stored_base(name, seed=seed, hold=hold)
    found = stored.weights
    weights = found.in_memory() if hold is Hold.PUBLISHED and isinstance(found, RowsInTurn) else dict(found)
    identity = identify(name, stored.config, weights, seed=stored.seed)
    return OpenedBase(identity=identity, config=stored.config, weights=weights, folder=stored.folder)


def read_shape(name: str) -> DecoderConfig:
    """Return the shape of the model for `name`; no weights are read.

    Raises:
        ConfigError: there is no such model, or it is not supported.
        CheckpointError: its file is damaged.
    """
    source = find_model(name)
    if source.path is None:
        return PRESETS[name.removeprefix(PREFIX)]
    if source.kind is Kind.GGUF:
        return _as_published(read_decoder(read_gguf(source.path)), source)
    return read_config(source.path)


def _as_published(config: DecoderConfig, source: Source) -> DecoderConfig:
    return config if source.end_tokens is None else replace(config, end_tokens=source.end_tokens)


def tokenizer_of(name: str) -> PreTrainedTokenizerBase:
    """Return the tokenizer of the model for `name`, without access to a hub.

    Raises:
        ConfigError: there is no such model, or it has no tokenizer.
        CheckpointError: its file is damaged.
    """
    source = find_model(name)
    if source.path is None:
        return preset_tokenizer(name.removeprefix(PREFIX))
    if source.kind is Kind.GGUF:
        return load_tokenizer(tokenizer_folder(read_gguf(source.path)))
    return load_tokenizer(source.path)


def check_same(actual: BaseModel, expected: BaseModel, *, source: str) -> None:
    """Reject a base model that differs from the one `source` was trained on.

    Raises:
        CheckpointError: the weights or the config differ; names and folders may differ.
    """
    for field, value, required in (
        ("base fingerprint", actual.fingerprint, expected.fingerprint),
        ("base config_sha256", actual.config_sha256, expected.config_sha256),
    ):
        if value != required:
            raise CheckpointError(
                f"{source}: trained on another base model than {actual.name}",
                field=field,
                value=value,
                allowed=f"{required}, that of {expected.name}",
                fix=f"use the base model that was trained: {expected.name}",
            )
