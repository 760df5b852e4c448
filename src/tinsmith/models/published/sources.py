"""Source of a model by its name: built in, a folder, a GGUF file, a fetched package's model, the local hub cache.

Nothing is downloaded, and no weights are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from tinsmith.models.presets import PRESETS
from tinsmith.models.published.hub import cached_model
from tinsmith.models.published.packaged import PACKAGED, PREFIX, packaged_model, require_fetched
from tinsmith.types.errors import ConfigError, near, perhaps

_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


class Kind(Enum):
    """Kind of a model's source."""

    BUILT_IN = auto()
    FOLDER = auto()
    GGUF = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Model that is available locally."""

    kind: Kind
    served_name: str | None
    """Default name on a server; None for a folder or a file, which have none."""
    path: Path | None
    """Folder or file; None for a built-in model."""
    end_tokens: tuple[int, ...] | None = None
    """Tokens that end a reply, if its publisher's differ from its file's."""


def find_model(name: str, *, field: str = "model") -> Source:
    """Return the source for `name`; errors name the setting `field`. An existing path takes precedence over all names.

    Raises:
        ConfigError: there is none; the message lists the names, and how to fetch models.
    """
    path = Path(name)
    if path.is_dir():
        return Source(kind=Kind.FOLDER, served_name=None, path=path)
    if path.is_file():
        return Source(kind=Kind.GGUF, served_name=None, path=path)
    packaged = packaged_model(name)
    if packaged is not None:
        file = require_fetched(packaged, field)
        return Source(kind=Kind.GGUF, served_name=packaged.served_name, path=file, end_tokens=packaged.end_tokens)
    if name.removeprefix(PREFIX) in PRESETS and name.startswith(PREFIX):
        return Source(kind=Kind.BUILT_IN, served_name=name, path=None)
    if is_hub_name(name) and not name.startswith(PREFIX):
        return Source(kind=Kind.FOLDER, served_name=name, path=cached_model(name, field))
    where = "model_name=PATH" if field == "model_name" else "serve --model NAME=PATH, or export --base PATH,"
    raise ConfigError(
        "there is no such model",
        field=field,
        value=name,
        allowed=f"a folder with config.json and safetensors, a .gguf file, {', '.join(own_names())}, "
        "or ORG/NAME from the hub",
        fix=_meant(name)
        or perhaps(name, own_names())
        or f"{where} of a model that is here; or fetch one: `tinsmith base fetch smollm2`",
    )


def _meant(name: str) -> str | None:
    """Suggest a packaged model for a name without its prefix; a fetched model needs no prefix."""
    bare = {each.removeprefix(PREFIX): each for each in own_names()}
    own = {name: name if packaged_model(name) else full for name, full in bare.items()}
    found = [own[each] for each in near(name, own)]
    return f"perhaps {' or '.join(found)}" if found else None


def is_here(name: str) -> bool:
    """True if `name` is a model that is available locally."""
    try:
        find_model(name)
    except ConfigError:
        return False
    return True


def is_hub_name(name: str) -> bool:
    """True if a name has the hub's form ORG/NAME."""
    return _HUB_NAME.fullmatch(name) is not None and not name.endswith(".gguf")


def own_names() -> tuple[str, ...]:
    """Return the names of the built-in and packaged models."""
    return tuple(PREFIX + name for name in (*PRESETS, *PACKAGED))
