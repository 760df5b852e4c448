"""Atomic creation or replacement of a folder: it appears whole or not at all.

A reader never finds half a folder: it is written beside its destination, flushed to the disk, and renamed. Replacement
takes two renames, and a process may die between them; `present` then finds the previous folder. One writer at a time
per folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tinsmith.types.disk import writing
from tinsmith.types.errors import ConfigError


@contextmanager
def staged(path: Path, *, overwrite: bool = False) -> Generator[Path, None, None]:
    """Yield an empty folder that is moved to `path` when the body completes; otherwise nothing changes.

    Raises:
        ConfigError: something is at `path` already, and `overwrite` is false.
    """
    if not overwrite and is_taken(path):
        raise ConfigError(
            "there is already something at this place", field="path", value=str(path), fix="name a new folder"
        )
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    with writing(path), tempfile.TemporaryDirectory(prefix=_prefix(path), dir=path.parent) as staging:
        whole = Path(staging) / "whole"
        whole.mkdir()
        yield whole
        for file in sorted(whole.rglob("*")):
            _flush(file)
        _flush(whole)
        _put(whole, path)


@contextmanager
def one_writer(path: Path) -> Generator[None, None, None]:
    """Wait until no other process is inside for the same `path`; for folders that several may build."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def folder_lock(folder: Path) -> int | None:
    """Return a descriptor that keeps others out of a folder until it is closed, or the process ends; None: one is in.

    It leaves no file. A file system without locks for folders, as some network drives, lets everyone in.
    """
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(place)
        return None
    except OSError:
        pass
    return place


def is_taken(path: Path) -> bool:
    """True if `path` exists and a new folder may not replace it; an empty folder may be replaced."""
    there = present(path)
    return there.exists() and not (there.is_dir() and not any(there.iterdir()))


def present(path: Path) -> Path:
    """Return the folder with the content of `path`: itself, or the one set aside by an interrupted replacement."""
    aside = _aside(path)
    return aside if not path.exists() and aside.is_dir() else path


def names_in(parent: Path) -> list[str]:
    """Return the names of the folders below `parent` whose content is `present`, sorted."""
    entries = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
    names = {name for name in entries if not name.startswith(".")}
    names |= {name[1:-4] for name in entries if name.startswith(".") and name.endswith(".old")}
    return sorted(names)


def remove(path: Path) -> None:
    """Remove a folder atomically, then delete its files."""
    with tempfile.TemporaryDirectory(prefix=_prefix(path), dir=path.parent) as staging:
        for i, folder in enumerate((_aside(path), path)):
            if folder.exists():
                folder.replace(Path(staging) / str(i))


def _put(whole: Path, path: Path) -> None:
    aside = _aside(path)
    if path.exists():
        shutil.rmtree(aside, ignore_errors=True)
        path.replace(aside)
    whole.replace(path)
    _flush(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _prefix(path: Path) -> str:
    return f".{path.name}.writing-"


def _sweep(path: Path) -> None:
    """Remove the remains of a killed writer of the same folder."""
    mine = re.compile(re.escape(_prefix(path)) + "[a-z0-9_]{8}")
    for entry in path.parent.iterdir():
        if mine.fullmatch(entry.name):
            shutil.rmtree(entry, ignore_errors=True)


def _flush(path: Path) -> None:
    """Force a file's bytes, or a folder's entries, to the disk."""
    if path.is_dir() and os.name != "posix":
        return  # only POSIX opens folders
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
