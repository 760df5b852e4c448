"""Location of the works in a copy of the OpenAlex snapshot, in its layouts of before and after 2026.

    data/jsonl/works/updated_date=YYYY-MM-DD/part_0000.gz or part_0000.jsonl.gz
    data/parquet/works/updated_date=YYYY-MM-DD/part_0000.parquet
    data/works/... and legacy-data/works/...   the flat layout of before; `merged_ids` beside it is not read

A folder in the middle of such a path will do too. Where several copies of the works are there, the first
in this order is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tinsmith.types.errors import DataError

_PLACES = (
    ("jsonl", ("data/jsonl/works", "jsonl/works")),
    ("parquet", ("data/parquet/works", "parquet/works")),
    ("legacy", ("data/works", "legacy-data/works", "legacy-data/data/works")),
    ("works", ("works", ".")),
)
_ENDINGS = (".gz", ".jsonl", ".parquet")
_PARTITION = re.compile(r"updated_date=(\d{4}-\d{2}-\d{2})")


@dataclass(frozen=True, slots=True)
class Part:
    """File of works."""

    path: Path
    name: str
    """Path relative to the snapshot, with forward slashes."""
    partition: str | None
    """Day of its records' last change."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Parts of a snapshot, by name."""

    layout: str
    parts: tuple[Part, ...]


def find_snapshot(folder: Path) -> Snapshot:
    """Find the works in `folder`.

    Raises:
        DataError: there are none.
    """
    for layout, places in _PLACES:
        for place in places:
            parts = _parts(folder, folder / place)
            if parts:
                return Snapshot(layout, parts)
    raise DataError(
        f"no OpenAlex works in {folder}",
        field="snapshot",
        allowed="a folder with data/jsonl/works/updated_date=*/part_*.gz, data/parquet/works or data/works",
    )


def _parts(root: Path, works: Path) -> tuple[Part, ...]:
    found: list[Part] = []
    for path in works.glob("updated_date=*/*"):
        if path.name.endswith(_ENDINGS) and path.is_file():
            name = path.relative_to(root).as_posix()
            partition = _PARTITION.search(path.parent.name)
            found.append(Part(path, name, partition[1] if partition else None))
    return tuple(sorted(found, key=lambda part: part.name))
