"""Which base model an adapter belongs to, and where that model is found: a folder, or built in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from tinsmith.models.config import DecoderConfig
from tinsmith.models.folder import read_config, read_weights, weights_fingerprint
from tinsmith.models.presets import PRESETS, initial_weights
from tinsmith.types.errors import CheckpointError, ConfigError
from tinsmith.types.fingerprints import sha256_of

BUILT_IN = "tinsmith/"
"""Names that start so are `PRESETS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModel:
    """A base model's identity: equal fingerprints mean the same function, whatever it is called."""

    name: str
    """A folder, a built-in model (`tinsmith/nano`), or what a server calls it."""
    fingerprint: str
    """SHA-256 of the fp32 weights before any quantisation: `folder.weights_fingerprint`."""
    config_sha256: str
    """SHA-256 of the `DecoderConfig`."""
    seed: int | None = None
    """Seed of a built-in model's initial weights; None for all others."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("a base model has a name", field="base.name", value=self.name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedBase:
    """A base model read into memory."""

    identity: BaseModel
    config: DecoderConfig
    weights: Mapping[str, Tensor]
    """fp32, by published name."""
    folder: Path | None
    """Where it was read; None for a built-in model."""


def identify(
    name: str, config: DecoderConfig, weights: Mapping[str, Tensor], *, seed: int | None = None
) -> BaseModel:
    """Return the identity of weights at hand; hashes all of them."""
    return BaseModel(
        name=name,
        fingerprint=weights_fingerprint(weights),
        config_sha256=sha256_of(config),
        seed=seed,
    )


def open_base(name: str, *, seed: int | None = None) -> OpenedBase:
    """Read the folder `name`, or draw the built-in model of this name from `seed` (default 0).

    Raises:
        ConfigError: there is no such folder or built-in model, or it is not supported.
        CheckpointError: the folder's weights are damaged.
    """
    if name.startswith(BUILT_IN) and not Path(name).is_dir():
        return _built_in(name, seed or 0)
    if not Path(name).is_dir():
        raise ConfigError(
            "the base model is neither a folder here nor built in",
            field="base",
            value=name,
            allowed="a folder with config.json and safetensors, or " + ", ".join(built_in_names()),
            fix="name a folder that is there: serve --model NAME=PATH, export --base PATH",
        )
    config = read_config(Path(name))
    weights = read_weights(Path(name), config)
    identity = identify(name, config, weights)
    return OpenedBase(identity=identity, config=config, weights=weights, folder=Path(name))


def built_in_names() -> tuple[str, ...]:
    """Return the names of the built-in models."""
    return tuple(BUILT_IN + preset for preset in PRESETS)


def check_same(found: BaseModel, expected: BaseModel, *, source: str) -> None:
    """Refuse a base model that computes another function than the one `source` was trained on.

    Raises:
        CheckpointError: the weights or the config differ; names and folders may.
    """
    for field, value, wanted in (
        ("base fingerprint", found.fingerprint, expected.fingerprint),
        ("base config_sha256", found.config_sha256, expected.config_sha256),
    ):
        if value != wanted:
            raise CheckpointError(
                f"{source}: trained on another base model than {found.name}",
                field=field,
                value=value,
                allowed=f"{wanted}, that of {expected.name}",
                fix=f"use the base model that was trained: {expected.name}",
            )


def _built_in(name: str, seed: int) -> OpenedBase:
    config = PRESETS.get(name.removeprefix(BUILT_IN))
    if config is None:
        raise ConfigError(
            "no such built-in model",
            field="base",
            value=name,
            allowed=", ".join(built_in_names()),
        )
    weights = initial_weights(config, seed)
    identity = identify(name, config, weights, seed=seed)
    return OpenedBase(identity=identity, config=config, weights=weights, folder=None)
