"""Whether a finished run was trained on the base that is named now: where that lies is no part of its identity."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from tinsmith.lab.experiment.materials import Materials
from tinsmith.models.base import open_base
from tinsmith.models.published.sources import is_here
from tinsmith.types.errors import ConfigError


def require_same_base(manifest: Mapping[str, object], materials: Materials) -> None:
    """Refuse a run that was trained on other weights than those in the folder that is named now.

    What another server serves is not known here before it is asked, and passes.

    Raises:
        ConfigError: the weights are others.
    """
    identity = cast(Mapping[str, object], manifest.get("identity") or {})
    trained = cast(Mapping[str, object], identity.get("model") or {}).get("fingerprint")
    named = materials.models.get(materials.model_name)
    if trained is None or named is None or not is_here(named):
        return
    if _fingerprint(_absolute(named)) != trained:
        raise ConfigError(
            "the run in this folder was trained on another base",
            field="model_name",
            value=named,
            fix="give the one that it was trained on, or another folder for what comes out",
        )


def _absolute(name: str) -> str:
    """A whole path, for the cache's sake: the working folder may change."""
    return str(Path(name).absolute()) if Path(name).exists() else name


@lru_cache
def _fingerprint(name: str) -> str:
    return open_base(name).identity.fingerprint
