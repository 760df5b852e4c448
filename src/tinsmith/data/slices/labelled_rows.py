"""Papers that are labelled already: records under the twelve names of the source notes, read from a file or in Python.

`openalex_id`, `title` and `abstract` are texts; scores, labels and everything else may be null or absent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import polars as pl

from tinsmith.data.labels import Disruption, Novelty
from tinsmith.data.losses import Tally, require_few
from tinsmith.data.progress import Progress
from tinsmith.data.quarantine import MAX_TEXT, QuarantineEntry
from tinsmith.data.slices.copies import letters
from tinsmith.data.slices.rows import PaperRow, encode_row
from tinsmith.data.sources.json_blocks import read_json_blocks
from tinsmith.data.sources.json_text import plain
from tinsmith.data.sources.kinds import Malformed, as_count, as_id, as_real, as_text, as_texts, as_year, written
from tinsmith.data.sources.lines import Block, DamagedFile
from tinsmith.data.sources.paper_record import check_keys, require_json
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import parse_json

ID: str = "openalex_id"
"""Name of the id; a mapping that has it is such a record."""
_FORM = f'one JSON object a line, {{"{ID}": "W1", "title": "T", "abstract": "A", "disruption_label": "neutral", ...}}'
_KEYS = tuple(f'"{name}"'.encode() for name in PaperRow.__struct_fields__)
_COLUMNS: Mapping[str, type[pl.DataType]] = {
    "place": pl.UInt32,
    "id": pl.String,
    "year": pl.Int64,
    "cd": pl.Float64,
    "novelty_score": pl.Float64,
    "conventionality_score": pl.Float64,
    "disruption_label": pl.String,
    "novelty_label": pl.String,
    "offset": pl.UInt64,
    "title": pl.String,
    "abstract": pl.String,
}

_Label = TypeVar("_Label", Disruption, Novelty)


def labelled_row(record: Mapping[str, object]) -> PaperRow:
    """Return a record as a row, with its values in any export's types.

    Raises:
        DataError: it has no id, or an unreadable value.
    """
    try:
        return _row(record)
    except Malformed as error:
        raise DataError(f"this is not a labelled paper: {error}", field="papers", value=record.get(ID)) from None


def _row(record: Mapping[str, object]) -> PaperRow:
    name = as_id(record.get(ID))
    if name is None:
        raise Malformed("no id")
    concepts = record.get("concepts")
    return PaperRow(
        openalex_id=name,
        title=written(as_text(record.get("title"))) or "",
        abstract=written(as_text(record.get("abstract"))) or "",
        publication_year=as_year(record.get("publication_year")),
        cited_by_count=as_count(record.get("cited_by_count")),
        cd_index=as_real(record.get("cd_index")),
        novelty_score=as_real(record.get("novelty_score")),
        conventionality_score=as_real(record.get("conventionality_score")),
        disruption_label=_label(Disruption, record.get("disruption_label")),
        novelty_label=_label(Novelty, record.get("novelty_label")),
        primary_field=written(as_text(record.get("primary_field"))),
        concepts=tuple(as_texts(list(concepts) if isinstance(concepts, tuple) else concepts)),
    )


def _label(kind: type[_Label], value: object) -> _Label | None:
    text = as_text(value)
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        raise Malformed(f"not a label of {kind.__name__.lower()}: {text[:MAX_TEXT]}") from None


@dataclass(frozen=True, slots=True, eq=False)
class LabelledFile:
    """Readable papers of a file in the order of its lines; their rows are in a store."""

    papers: pl.DataFrame
    """place (of the record in the file, from 0), id, year, cd, scores, labels, offset (of the row in the store), text
    (hash of the letters of title and abstract), has_title and has_abstract."""
    records: int
    """Records of the file, readable or not."""
    sha256: str
    """Digest of all records in order, independent of the file's compression."""
    quarantine: list[QuarantineEntry]


class _Reading:
    """State of reading a file."""

    def __init__(self, name: str, store: BinaryIO) -> None:
        self.name = name
        self.tally = Tally(name, allowed=_FORM)
        self.digest = hashlib.sha256()
        self.quarantine: list[QuarantineEntry] = []
        self.records = 0
        self._store = store
        self._offset = 0
        self._lines: dict[str, int] = {}

    def block(self, block: Block) -> pl.DataFrame:
        """Read the papers of a block; malformed records are quarantined."""
        rows: list[tuple[object, ...]] = []
        for number, line in block.lines():
            place, self.records = self.records, self.records + 1
            try:
                row = self._row(line, number)
            except Malformed as error:
                self.lose(number, str(error), line.decode("utf-8", "replace"))
                self.digest.update(line + b"\n")
                continue
            encoded = encode_row(row)
            self.digest.update(encoded)
            self._store.write(encoded)
            scores = row.cd_index, row.novelty_score, row.conventionality_score
            labels = row.disruption_label, row.novelty_label
            facts = (place, row.openalex_id, row.publication_year, *scores, *labels, self._offset)
            rows.append((*facts, row.title, row.abstract))
            self._offset += len(encoded)
        self.tally.read += len(rows)
        frame = pl.DataFrame(rows, dict(_COLUMNS), orient="row")
        texts = frame.select(pl.concat_str(letters("title"), pl.lit("\n"), letters("abstract"))).to_series()
        hashes = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        return frame.with_columns(
            pl.Series("text", hashes, pl.Binary), has_title=pl.col("title") != "", has_abstract=pl.col("abstract") != ""
        ).drop("title", "abstract")

    def _row(self, line: bytes, number: int) -> PaperRow:
        if any(line.count(key) > 1 for key in _KEYS):
            _check_unique(line)
        record = plain(line)
        if not isinstance(record, dict):
            raise Malformed("not a JSON object")
        row = _row(cast("Mapping[str, object]", record))
        first = self._lines.setdefault(row.openalex_id, number)
        if first != number:
            raise Malformed(f"the id of an earlier line: {row.openalex_id}, line {first}")
        return row

    def lose(self, number: int, reason: str, text: str) -> None:
        """Quarantine a record."""
        self.tally.lose(reason.partition(": ")[0], where=f"{self.name}:{number}", text=text)
        self.quarantine.append(QuarantineEntry(file=self.name, line=number, reason=reason, text=text[:MAX_TEXT]))


def read_labelled(path: Path, store: BinaryIO, progress: Progress, *, skip_bad: bool = False) -> LabelledFile:
    """Read a file of labelled papers, and write their rows to `store`.

    Malformed records, and those with the id of an earlier one, are quarantined.

    Raises:
        DataError: the file is no text or damaged, names a key otherwise, or too many of its records are lost; with
            `skip_bad`, only if none is left.
    """
    progress.begin("reading papers", None)
    reading = _Reading(path.name, store)
    frames: list[pl.DataFrame] = []
    try:
        for block in check_keys(read_json_blocks(path, path.name), path.name, PaperRow.__struct_fields__):
            if block.first == 1:
                require_json(block, path.name, ID, "FILE")
            frames.append(reading.block(block))
            progress.advance(frames[-1].height)
    except DamagedFile as error:
        if not skip_bad:
            raise
        reading.lose(error.line, error.why, error.text)
    if not skip_bad or not reading.tally.read:
        require_few(reading.tally)
    if not reading.tally.read:
        raise DataError(f"{path.name} has no records", field="file", value=path.name, allowed=_FORM)
    return LabelledFile(pl.concat(frames), reading.records, reading.digest.hexdigest(), reading.quarantine)


def _check_unique(line: bytes) -> None:
    try:
        parse_json(line)
    except ValueError as error:
        raise Malformed(str(error)) from None


def rows_at(store: BinaryIO, offsets: list[int]) -> Iterator[bytes]:
    """Yield the encoded rows at these offsets of a store."""
    for offset in offsets:
        store.seek(offset)
        yield store.readline()
