"""Atomic creation or replacement of a file: written beside its destination, then renamed over it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tinsmith.types.disk import writing


@contextmanager
def replacing(path: Path) -> Generator[Path, None, None]:
    """Yield a path to write to; it becomes `path` when the body completes, otherwise it is removed.

    One writer at a time per file; the folder must exist.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with writing(path):
            yield part
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
