"""Reader of a frozen slice, which verifies the SHA-256 of every file first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tinsmith.data.slices.card import SIDECAR, SliceCard, read_slice_card, split_file
from tinsmith.data.slices.rows import PaperRow, decode_row
from tinsmith.data.slices.splits import Split, ids_sha256
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.json_text import UNREADABLE

_AGAIN = "cut the slice again: tinsmith data slice CORPUS ..."


@dataclass(frozen=True, slots=True)
class Slice:
    """Slice folder whose splits match its card; no row is in memory."""

    folder: Path
    card: SliceCard

    @classmethod
    def open(cls, folder: Path) -> Slice:
        """Open a slice and verify the bytes of its splits.

        Raises:
            DataError: the folder is not a slice, or a file is missing or was changed.
        """
        card = read_slice_card(folder)
        for split, expected in card.splits.items():
            file = folder / split_file(split)
            if not file.is_file():
                raise DataError(f"{file} is missing", fix=_AGAIN)
            found = file_sha256(file)
            if found != expected.rows_sha256:
                raise DataError(
                    f"{file} is not the file that {folder.name} was frozen with",
                    field="sha256",
                    value=found,
                    allowed=expected.rows_sha256,
                    fix=_AGAIN,
                )
        return cls(folder, card)

    def rows(self, split: Split) -> Iterator[PaperRow]:
        """Yield the rows of one split in order.

        Raises:
            DataError: a line is not a valid row.
        """
        file = self.folder / split_file(split)
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield decode_row(line)
                except UNREADABLE as error:
                    raise DataError(f"{file}:{number}: {error}", fix=_AGAIN) from None

    def metrics(self, *columns: str) -> pl.DataFrame:
        """Return the rows' metrics, label names, split and cause, in row order, train first.

        Raises:
            DataError: the file is missing, or belongs to other rows; an unknown column.
        """
        file = self.folder / SIDECAR
        try:
            frame = pl.read_parquet(file, glob=False)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"{file}: {str(error).splitlines()[0]}", fix=_AGAIN) from None
        if not {"id", "split"} <= set(frame.columns):
            raise DataError(f"{file} belongs to no slice", fix=_AGAIN)
        for split, expected in self.card.splits.items():
            ids = frame.filter(pl.col("split") == split.value)["id"].to_list()
            if ids_sha256(ids) != expected.ids_sha256:
                raise DataError(f"{file} belongs to other rows", field=split.value, fix=_AGAIN)
        for name in columns:
            if name not in frame.columns:
                raise DataError("no such column", field="column", value=name, allowed=frame.columns)
        return frame.select(columns) if columns else frame
