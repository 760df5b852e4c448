"""Brings odd OpenAlex records into the types of the schema: what converters, exports and hand-made files did to them.

A list of one may have become its element and an empty object a list, numbers and flags may be text, dates
may be dates, an abstract's index may be JSON text or a list of (key, value) rows. What cannot be understood is
None; nothing here raises.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import cast

import msgspec

_TEXTS = (
    "id", "publication_date", "updated_date", "display_name", "title", "language", "type",
)  # fmt: skip
_NUMBERS = ("publication_year", "cited_by_count")
_FLAGS = ("is_retracted", "is_paratext", "is_xpac")
_LISTS = ("topics", "keywords", "concepts")


def mended(record: Mapping[str, object]) -> dict[str, object]:
    """Return a work's known keys in the types that `openalex_record` has for them."""
    location = _object(record.get("primary_location"))
    topic = _object(record.get("primary_topic"))
    return {
        **{name: _text(record.get(name)) for name in _TEXTS},
        **{name: _number(record.get(name)) for name in _NUMBERS},
        **{name: _flag(record.get(name)) for name in _FLAGS},
        "host_venue": _entity(record.get("host_venue")),
        "primary_location": {"source": _entity(location.get("source"))},
        "primary_topic": {"field": _entity(topic.get("field"))},
        "referenced_works": [one for one in _items(record.get("referenced_works")) if isinstance(one, str)],
        **{name: [entity for one in _items(record.get(name)) if (entity := _entity(one))] for name in _LISTS},
        "abstract_inverted_index": inverted_index(record.get("abstract_inverted_index")),
    }


def _items(value: object) -> list[object]:
    if value is None or value == {}:
        return []
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _object(value: object) -> Mapping[str, object]:
    if isinstance(value, list) and len(cast("list[object]", value)) == 1:
        value = cast("list[object]", value)[0]
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _entity(value: object) -> dict[str, object] | None:
    """A named thing; its bare name will do."""
    if isinstance(value, str):
        return {"display_name": value}
    found = _object(value)
    return {
        "display_name": _text(found.get("display_name")),
        "keyword": _text(found.get("keyword")),
        "level": _number(found.get("level")),
        "score": _real(found.get("score")),
    } if found else None  # fmt: skip


def _text(value: object) -> str | None:
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if isinstance(value, list) and len(cast("list[object]", value)) == 1:
        value = cast("list[object]", value)[0]
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**62:
        return None
    return value


def _real(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _flag(value: object) -> bool:
    return value in (True, 1) or (isinstance(value, str) and value.lower() == "true")


def inverted_index(value: object) -> dict[str, object] | None:
    """Return an abstract's index from a mapping, its JSON text, or rows of `key` and `value`; else None."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return None
    if isinstance(value, list):  # a parquet map
        rows = [_object(row) for row in cast("list[object]", value)]
        value = {str(row["key"]): row["value"] for row in rows if {"key", "value"} <= row.keys()}
    if not isinstance(value, dict):
        return None
    return {word: _items(at) for word, at in cast("dict[str, object]", value).items()}
