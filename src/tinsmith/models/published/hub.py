"""Models of the hub by name: found in the local cache, or downloaded into it on request."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.folders.stored import INDEX, WEIGHTS, read_object
from tinsmith.types.errors import BackendError, CheckpointError, ConfigError

CONFIGS: Final = ("config.json", "generation_config.json")
FILES: Final = (
    *CONFIGS,
    *("*.safetensors", INDEX),
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt"),
    *("chat_template*",),
)
"""Patterns of files to fetch: no code, and no other framework's weights."""
_NOT: Final = ("*/*",)
_NAMED_TEMPLATES: Final = "additional_chat_templates/*.jinja"
"""Only files of a subfolder that a tokenizer has."""


def cached_model(name: str, field: str = "model") -> Path:
    """Return the folder of a model in the local cache, without network access.

    Raises:
        ConfigError: it is missing or incomplete.
    """
    folder = _cached(name)
    elsewhere = "; or base_url=URL of a server that has it" if field == "model_name" else ""
    if folder is None:
        raise ConfigError(
            "this model is not here: it is no folder, and not in the local hub cache",
            field=field,
            value=name,
            fix=f"tinsmith base fetch {name}{elsewhere}",
        )
    if not _is_whole(folder):
        raise ConfigError(
            "the local hub cache has only a part of this model",
            field=field,
            value=name,
            allowed="config.json and safetensors",
            fix=f"tinsmith base fetch {name}{elsewhere}",
        )
    return folder


def is_cached(name: str) -> bool:
    """True if the local cache has all necessary files of a model."""
    folder = _cached(name)
    return folder is not None and _is_whole(folder)


def fetch(name: str) -> Path:
    """Download a model's config, weights and tokenizer into the local hub cache.

    The config goes first, so that nothing large is downloaded of a model that cannot be used.

    Raises:
        ConfigError: there is no such model, it is not open to this user, or it is not supported.
        BackendError: the hub cannot be reached, or there is no room.
    """
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        first = snapshot_download(name, allow_patterns=list(CONFIGS), ignore_patterns=list(_NOT))
        read_config(Path(first))
        whole = snapshot_download(name, allow_patterns=list(FILES), ignore_patterns=list(_NOT))
        snapshot_download(name, revision=Path(whole).name, allow_patterns=[_NAMED_TEMPLATES])
    except GatedRepoError as error:
        raise _refused(name, "this model is given only to those who asked for it", error) from None
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise _refused(name, "the hub has no such model", error) from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, HTTPError) as error:
        raise BackendError(
            f"the hub cannot be reached, or did not answer: {_first_line(error)}",
            field="NAME",
            value=name,
            fix="check the network (HF_ENDPOINT, HF_HUB_OFFLINE, proxies), then fetch again",
        ) from None
    except OSError as error:
        raise BackendError(
            f"the model could not be written: {error.strerror or _first_line(error)}",
            field="NAME",
            value=name,
            fix="make room where the hub cache is (HF_HOME), then fetch again: it goes on where it was",
        ) from None
    if not _is_whole(Path(whole)):
        raise ConfigError("this model has no safetensors", field="NAME", value=name)
    return Path(whole)


def _cached(name: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _is_whole(folder: Path) -> bool:
    if not (folder / CONFIGS[0]).is_file():
        return False
    if (folder / WEIGHTS).is_file():
        return True
    if not (folder / INDEX).is_file():
        return False
    shards = read_object(folder / INDEX, CheckpointError).get("weight_map")
    names = set(shards.values()) if isinstance(shards, dict) else set[str]()
    return all((folder / str(name)).is_file() for name in names)


def _refused(name: str, what: str, error: Exception) -> ConfigError:
    return ConfigError(f"{what}: {_first_line(error)}", field="NAME", value=name)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
