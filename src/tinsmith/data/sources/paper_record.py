"""Paper as a JSON record that any tool can write: its keys, with values in any export's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from typing import Annotated, cast

import msgspec

from tinsmith.data.abstracts import from_inverted_index
from tinsmith.data.paper import Paper
from tinsmith.data.sources.journal import journal_name
from tinsmith.data.sources.json_text import decoded, plain
from tinsmith.data.sources.kinds import (
    Malformed,
    as_count,
    as_date,
    as_id,
    as_index,
    as_text,
    as_texts,
    as_year,
    written,
)
from tinsmith.data.sources.lines import Block
from tinsmith.data.sources.names import plain as folded
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import parse_json


class _Line(msgspec.Struct, gc=False):
    """Record of a paper; other keys are ignored."""

    id: str | int | None = None
    title: str | None = None
    abstract: str | None = None
    date: str | None = None
    """YYYY-MM-DD, YYYY-MM (its first day) or YYYY (no date, only the year)."""
    year: int | None = None
    venue: str | None = None
    journal_ref: str | None = None
    """Free reference, reduced to the journal's name if there is no `venue`."""
    field: str | None = None
    concepts: list[str] | None = None
    cited_by_count: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None
    type: str | None = None
    language: str | None = None


_DECODER = msgspec.json.Decoder(_Line)
_SPELLED = tuple(f'"{name}"'.encode() for name in _Line.__struct_fields__)
_FIRST = 100
"""Records whose keys are checked before any are read."""
_TEXTS = ("title", "abstract", "venue", "journal_ref", "field", "type", "language")


def paper_of(line: bytes, lost: list[str] | None = None) -> Paper:
    """Read a record; `lost` receives the counters of unreadable values.

    Raises:
        Malformed: it is not an object, or its id or year is unreadable.
    """
    lost = [] if lost is None else lost
    if any(line.count(key) > 1 for key in _SPELLED):
        _require_unique(line)
    try:
        record = decoded(_DECODER, line)
    except msgspec.ValidationError:
        record = _mended(line, lost)
    date, year = None, as_year(record.year)
    if record.date:
        try:
            date, dated = as_date(record.date, year) or (None, year)
            year = dated if year is None else year
        except Malformed:
            if year is None:
                raise
            lost.append("bad_dates")
    name = as_id(record.id)
    if name is None:
        raise Malformed("no id")
    journal = journal_name(record.journal_ref) if record.journal_ref else None
    return Paper(
        id=name,
        year=year,
        title=written(record.title),
        abstract=_abstract(text, lost) if (text := written(record.abstract)) else None,
        date=date,
        venue=written(record.venue) or journal,
        field=written(record.field),
        concepts=tuple(filter(written, record.concepts or ())),
        type=written(record.type),
        language=written(record.language),
        cited_by_count=record.cited_by_count,
    )


def _abstract(text: str, lost: list[str]) -> str | None:
    """Return an abstract, also from an index of its words (possibly as JSON)."""
    if not text.startswith('{"'):
        return text
    try:
        index = as_index(text)
        return None if index is None else from_inverted_index(index)
    except Malformed:
        return text
    except DataError:
        lost.append("bad_abstracts")
        return None


def _require_unique(line: bytes) -> None:
    """Check that no key occurs twice, since one value would be lost: two records may have been merged.

    Raises:
        Malformed: one does, or the line is not JSON.
    """
    try:
        parse_json(line)
    except ValueError as error:
        raise Malformed(str(error)) from None


def require_json(block: Block, name: str, key: str = "id", option: str = "--papers") -> None:
    """Check that papers are not a delimited table with a header.

    Raises:
        DataError: they are.
    """
    first = next((line.decode("utf-8", "replace") for _, line in block.lines()), "")
    separator = next((one for one in "\t;,|" if one in first), None)
    if separator and not first.startswith("{") and folded(key) in map(folded, first.split(separator)):
        raise DataError(
            f"{name} is a table (CSV or TSV), and papers are read as JSON",
            field=option,
            value=first[:100],
            allowed=f'one JSON object a line, such as {{"{key}": "a", "title": "T", ...}}',
            fix=f"convert it in Python: polars.read_csv({name!r}, separator={separator!r}, infer_schema=False)"
            '.write_ndjson("papers.jsonl")',
        )


_FIELDS = _Line.__struct_fields__


def check_keys(blocks: Iterable[Block], name: str, ours: tuple[str, ...] = _FIELDS) -> Iterator[Block]:
    """Yield the blocks; first check that no early record has a key that differs from ours only in case and punctuation.

    Raises:
        DataError: one has, and no early record has ours.
    """
    rest = iter(blocks)
    held, lines = list[Block](), list[bytes]()
    for block in rest:  # the first block may be a single line
        held.append(block)
        lines += (line for _, line in islice(block.lines(), _FIRST - len(lines)))
        if len(lines) == _FIRST:
            break
    _require_spelled(lines, name, ours)
    yield from chain(held, rest)


def _require_spelled(lines: Iterable[bytes], name: str, names: tuple[str, ...]) -> None:
    keys: dict[str, None] = {}
    for line in lines:
        with suppress(Malformed):
            record = plain(line)
            keys |= dict.fromkeys(cast("Mapping[str, object]", record) if isinstance(record, dict) else ())
    ours = {folded(field): field for field in names}
    for key in keys:
        field = ours.get(folded(key))
        if field is not None and field not in keys:
            raise DataError(
                f"{name}: a key is not spelled as it is read",
                field="key",
                value=key,
                allowed=", ".join(names),
                fix=f'name it "{field}"',
            )


def _mended(line: bytes, lost: list[str]) -> _Line:
    """Read a record whose values have other types."""
    values = plain(line)
    if not isinstance(values, dict):
        raise Malformed("not a JSON object")
    record = cast("Mapping[str, object]", values)
    year = as_year(record.get("year"))
    mended = _Line(id=as_id(record.get("id")), year=year)
    try:
        dated = as_date(record.get("date"), year)
    except Malformed:
        if year is None:
            raise
        lost.append("bad_dates")
    else:
        mended.date = None if dated is None else str(dated[0] or f"{dated[1]:04}")
    abstract = record.get("abstract")
    if isinstance(abstract, dict):
        record = {**record, "abstract": msgspec.json.encode(abstract).decode()}
    for name in _TEXTS:
        try:
            setattr(mended, name, as_text(record.get(name)))
        except Malformed:
            lost.append("bad_values")
    for name, kind in (("concepts", as_texts), ("cited_by_count", as_count)):
        try:
            setattr(mended, name, kind(record.get(name)))
        except Malformed:
            lost.append("bad_values")
    return mended
