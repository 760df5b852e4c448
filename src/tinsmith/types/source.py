"""Hash of the running package's source, the same in a checkout and an installation.

The compiled extension is not included: another compiler gives other bytes for the same source, and the certificate
covers its arithmetic.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from tinsmith.types.fingerprints import file_sha256, sha256_of

PACKAGE: Final = Path(__file__).parents[1]

_COMPILED: Final = (".pyc", ".so", ".pyd", ".cu", ".cuh", ".h")
"""Suffixes of excluded files: compiled ones, and GPU sources, which an installation stores elsewhere."""


@cache
def source_sha256() -> str:
    """Return the SHA-256 of this package's files by path: code, prompts, templates; as of the first call."""
    return tree_sha256(PACKAGE)


def tree_sha256(folder: Path) -> str:
    """Return the SHA-256 over the source files below a folder and their paths in it."""
    files = sorted(
        (file.relative_to(folder).as_posix(), file)
        for file in folder.rglob("*")
        if file.is_file() and file.suffix not in _COMPILED and not file.name.startswith(".")
    )
    return sha256_of({name: file_sha256(file) for name, file in files})
