"""Location of the works in a copy of the OpenAlex snapshot, in its layouts of before and after 2026.

    data/jsonl/works/updated_date=YYYY-MM-DD/part_0000.gz or part_0000.jsonl.gz
    data/parquet/works/updated_date=YYYY-MM-DD/part_0000.parquet
    data/works/... and legacy-data/works/...   the flat layout of before; `merged_ids` beside it is not read

A folder in the middle of such a path will do too. Where several copies of the works are there, the first
in this order is read. Parts of JSON may be plain or packed in any way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tinsmith.data.sources.streams import PACKED_ENDINGS
from tinsmith.types.errors import DataError

_PLACES = (
    ("jsonl", ("data/jsonl/works", "jsonl/works")),
    ("parquet", ("data/parquet/works", "parquet/works")),
    ("legacy", ("data/works", "legacy-data/works", "legacy-data/data/works")),
    ("works", ("works", ".")),
)
_ENDINGS = (".parquet", ".jsonl", ".json", *PACKED_ENDINGS)
_NO_PARTS = ("manifest", ".", "_")
"""Beginnings of the names of files that tools leave beside the parts."""
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
        DataError: there are none, or another file is among them, whose works would be lost.
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
    for path in sorted(works.glob("updated_date=*/*")):
        if path.name.startswith(_NO_PARTS) or not path.is_file():
            continue
        name = path.relative_to(root).as_posix()
        if not path.name.endswith(_ENDINGS):
            raise DataError(
                "a file beside the parts is no part of the works",
                field="snapshot",
                value=name,
                allowed=", ".join(_ENDINGS),
                fix="move it elsewhere; if it is a part, pack it in another way",
            )
        partition = _PARTITION.search(path.parent.name)
        found.append(Part(path, name, partition[1] if partition else None))
    return tuple(sorted(found, key=lambda part: part.name))
