"""Which source the running package is of: one hash over its files, wherever they lie.

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
"""What is compiled, and what is compiled on a GPU: a checkout has the latter in another place than an installation."""


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
