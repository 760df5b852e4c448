"""Hash of the running package's source: one over all its files, in a checkout or an installation.

The compiled extension is not in it: the same source gives other bytes with another compiler, and the certificate says
what it computes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from tinsmith.types.fingerprints import file_sha256, sha256_of

PACKAGE: Final = Path(__file__).parents[1]

_COMPILED: Final = (".pyc", ".so", ".pyd", ".cu", ".cuh", ".h")
"""Suffixes that are left out: compiled files, and GPU sources, which an installation has in another place."""


@cache
def source_sha256() -> str:
    """Return the SHA-256 of this package's files by path: code, prompts, templates; as they were when first asked."""
    return tree_sha256(PACKAGE)


def tree_sha256(folder: Path) -> str:
    """Return the SHA-256 over the source files below a folder and their paths in it."""
    files = sorted(
        (file.relative_to(folder).as_posix(), file)
        for file in folder.rglob("*")
        if file.is_file() and file.suffix not in _COMPILED and not file.name.startswith(".")
    )
    return sha256_of({name: file_sha256(file) for name, file in files})
