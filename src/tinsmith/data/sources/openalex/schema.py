"""Schemas of an OpenAlex work, as of 2023, 2025 and 2026, and its decoding.

Unknown keys are skipped unread; a record of other types (a scalar in place of a list, a number as text) is converted
and retried before it is rejected.
"""

from __future__ import annotations

from typing import Annotated, TypeVar, cast

import msgspec

from tinsmith.data.sources.json_text import NOT_JSON, decoded, plain
from tinsmith.data.sources.kinds import Malformed
from tinsmith.data.sources.openalex.mending import mended

Kind = TypeVar("Kind", bound="Node")

URL = "https://openalex.org/"


class _Named(msgspec.Struct, gc=False):
    display_name: str | None = None


class _Keyword(msgspec.Struct, gc=False):
    display_name: str | None = None
    keyword: str | None = None  # 2023


class _Concept(msgspec.Struct, gc=False):
    display_name: str | None = None
    level: int | None = None
    score: float | None = None


class _Location(msgspec.Struct, gc=False):
    source: _Named | None = None


class _Topic(msgspec.Struct, gc=False):
    field: _Named | None = None


class Node(msgspec.Struct, gc=False):
    """Part of a work for the citation graph; absent values are None."""

    id: str | None = None
    publication_year: int | None = None
    publication_date: str | None = None
    primary_location: _Location | None = None
    host_venue: _Named | None = None  # before 2023
    referenced_works: list[str] | None = None
    is_retracted: bool | None = None
    is_paratext: bool | None = None
    is_xpac: bool | None = None
    updated_date: str | None = None


class Listed(Node, gc=False):
    """Part of a work that chooses further queries: of the graph, with its DOI and the number of its citers."""

    doi: str | None = None
    cited_by_count: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None


class Work(Node, gc=False):
    """Complete work."""

    display_name: str | None = None
    title: str | None = None
    language: str | None = None
    type: str | None = None
    cited_by_count: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None
    primary_topic: _Topic | None = None
    topics: list[_Named] | None = None
    keywords: list[_Keyword] | None = None
    concepts: list[_Concept] | None = None
    abstract_inverted_index: dict[str, list[int]] | None = None


_WORK = msgspec.json.Decoder(Work)
_NODE = msgspec.json.Decoder(Node)
_LISTED = msgspec.json.Decoder(Listed)


def read_work(line: bytes | msgspec.Raw, lost: list[str]) -> Work:
    """Decode one JSON object; `lost` receives the counters of unreadable values.

    Raises:
        Malformed: it is not JSON, or not a work.
    """
    return _read(line, _WORK, Work, lost)


def read_node(line: bytes | msgspec.Raw, lost: list[str]) -> Node:
    """Decode one JSON object's part for the graph, as `read_work` does the whole.

    Raises:
        Malformed: it is not JSON, or not a work.
    """
    return _read(line, _NODE, Node, lost)


def read_listed(line: bytes | msgspec.Raw) -> Listed:
    """Decode one JSON object's part for further queries, as `read_work` does the whole.

    Raises:
        Malformed: it is not JSON, or not a work.
    """
    return _read(line, _LISTED, Listed, [])


def read_lines(lines: bytes | memoryview, kind: type[Kind]) -> list[Kind] | None:
    """Decode many lines at once; None if any of them is irregular."""
    decoder = _WORK if kind is Work else _NODE
    try:
        return cast("list[Kind]", decoder.decode_lines(lines))
    except NOT_JSON:
        return None


def from_plain(record: object, kind: type[Kind], lost: list[str]) -> Kind:
    """Convert plain Python values from JSON or a parquet row to a work.

    Raises:
        Malformed: they are not a work.
    """
    if not isinstance(record, dict):
        raise Malformed("not a JSON object")
    values = mended(cast("dict[str, object]", record), lost)
    abstract = values.pop("abstract_inverted_index", None)
    try:
        node = msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None
    if isinstance(node, Work):
        # Positions of a wrong type cost the abstract, not the paper: `from_inverted_index` checks them.
        node.abstract_inverted_index = cast("dict[str, list[int]] | None", abstract)
    return node


def _read(line: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[Kind], kind: type[Kind], lost: list[str]) -> Kind:
    try:
        return decoded(decoder, line)
    except msgspec.ValidationError:  # decoding stopped there: the rest need not be JSON
        return from_plain(plain(line), kind, lost)
