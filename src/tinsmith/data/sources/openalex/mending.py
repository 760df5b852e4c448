"""Conversion of irregular OpenAlex records, from converters, exports or hand-edited files, to the schema's types.

A list of one may have become its element and an empty object a list, numbers and flags may be text, dates may be
moments, an abstract's index may be JSON text or a list of (key, value) rows. An invalid value becomes None and is
counted, without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from tinsmith.data.sources.kinds import (
    Malformed,
    as_count,
    as_date,
    as_flag,
    as_id,
    as_ids,
    as_index,
    as_list,
    as_object,
    as_real,
    as_text,
    as_year,
)

_TEXTS = ("doi", "updated_date", "display_name", "title", "language", "type")
_FLAGS = ("is_retracted", "is_paratext", "is_xpac")
_LISTS = ("topics", "keywords", "concepts")

_Value = TypeVar("_Value")


def mended(record: Mapping[str, object], lost: list[str]) -> dict[str, object]:
    """Return a work's known keys in the schema's types; `lost` receives the counters of unreadable values.

    Raises:
        Malformed: the id cannot be read.
    """

    def tried(kind: Callable[[object], _Value], value: object, counter: str = "bad_values") -> _Value | None:
        try:
            return kind(value)
        except Malformed:
            lost.append(counter)
            return None

    def entity(value: object) -> dict[str, object] | None:
        """Return a named entity, also from its bare name."""
        if isinstance(value, str):
            return {"display_name": value}
        found = as_object(value)
        if not found:
            return None
        return {
            "display_name": tried(as_text, found.get("display_name")),
            "keyword": tried(as_text, found.get("keyword")),
            "level": tried(as_count, found.get("level")),
            "score": tried(as_real, found.get("score")),
        }

    try:
        year = as_year(record.get("publication_year"))
    except Malformed:
        year = 0  # no year at all, and the date is none instead of it
    dated = tried(lambda value: as_date(value, year or None), record.get("publication_date"), "bad_dates")
    references, bad = as_ids(record.get("referenced_works"))
    lost += ["bad_references"] * bad
    return {
        "id": as_id(record.get("id")),
        "publication_year": year if year is not None else dated and dated[1],
        "publication_date": str(dated[0]) if dated and dated[0] else None,
        **{name: tried(as_text, record.get(name)) for name in _TEXTS},
        "cited_by_count": tried(as_count, record.get("cited_by_count")),
        **{name: bool(tried(as_flag, record.get(name))) for name in _FLAGS},
        "host_venue": entity(record.get("host_venue")),
        "primary_location": {"source": entity(as_object(record.get("primary_location")).get("source"))},
        "primary_topic": {"field": entity(as_object(record.get("primary_topic")).get("field"))},
        "referenced_works": references,
        **{name: [one for item in tried(as_list, record.get(name)) or () if (one := entity(item))] for name in _LISTS},
        "abstract_inverted_index": tried(as_index, record.get("abstract_inverted_index"), "bad_abstracts"),
    }
