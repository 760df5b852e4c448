"""Folders of tinsmith: caches that can be recreated, and the server's state."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def home() -> Path:
    """Return TINSMITH_HOME, by default `tinsmith` in the user's cache folder, without creating it."""
    named = os.environ.get("TINSMITH_HOME")
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tinsmith"
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(cache) if cache else Path.home() / ".cache") / "tinsmith"


def bases_folder() -> Path:
    """Return the folder of the small bases that were built here."""
    return home() / "bases"


def state_folder() -> Path:
    """Return the folder of the server's checkpoints."""
    return home() / "state"


def certificates_folder() -> Path:
    """Return the folder of certificates issued here."""
    return home() / "certificates"
