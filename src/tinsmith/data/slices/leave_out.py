"""Papers to exclude from a slice, listed by id in a file."""

from __future__ import annotations

from pathlib import Path

from tinsmith.data.slices.splits import ids_sha256
from tinsmith.data.sources.kinds import Malformed, as_id
from tinsmith.data.sources.lines import read_blocks
from tinsmith.data.sources.streams import require_files
from tinsmith.types.errors import DataError


class LeftOut(frozenset[str]):
    """Ids of excluded papers."""

    @property
    def sha256(self) -> str:
        """Hash of the ids, independent of their order."""
        return ids_sha256(sorted(self))


def read_left_out(path: Path) -> LeftOut:
    """Read ids, one per line; empty lines and comments with # are skipped.

    Raises:
        DataError: it is not a file, there is none, or a line is not an id.
    """
    require_files(**{"leave-out": [path]})
    ids = set[str]()
    for block in read_blocks(path, path.name):
        for number, line in block.lines():
            if line.startswith(b"#"):
                continue
            try:
                one = as_id(line)
            except Malformed as error:
                raise DataError(f"{path.name}:{number}: {error}", allowed="one id a line") from None
            if one is not None:
                ids.add(one)
    if not ids:
        raise DataError(f"{path.name} names no paper", allowed="one id a line")
    return LeftOut(ids)
