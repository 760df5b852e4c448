"""Values of records in whatever type an export gave them: one function for each kind of field.

Empty values, NaN and the words that exports write for null are None; invalid values raise `Malformed`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import cast

import msgspec

NULLS = frozenset({"", "nan", "nat", "null", "none", "\\n", "<na>", "na", "n/a", "#n/a"})
"""Texts that mean null, in lower case."""
_YES = ("true", "1", "1.0", "t", "yes", "y")
_NO = (None, "false", "0", "0.0", "f", "no", "n")
MAX_COUNT = 2**62
FIRST_YEAR = 1000
"""Least full year: a smaller number has two or three digits of a year, or means null (0001-01-01 in .NET)."""
_LAST_YEAR = 2100
"""Largest year: a larger number in place of a date is a count of days."""
_EXACT = 2.0**53
_OPENALEX = re.compile(r"(?:https?://)?(?:www\.|api\.)?openalex\.org/(?:works/)?([a-z]\d+)/?", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d+(?:\.0+)?")
_ROUNDED = re.compile(r"\d(?:\.\d+)?[eE]\+\d{2,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DATE = re.compile(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2})(?:[T ][\d:.,+Z -]*)?)?)?")
_EPOCH = dt.datetime(1970, 1, 1)
_SHEET = dt.datetime(1899, 12, 30)
_DAY = 86400.0
_UNITS = (
    (FIRST_YEAR, None, _DAY),
    (22_000, _EPOCH, _DAY),
    (25_569, None, _DAY),
    (1e5, _SHEET, _DAY),
    (1e8, None, 1.0),
    (1e11, _EPOCH, 1.0),
    (1e14, _EPOCH, 1e-3),
    (1e17, _EPOCH, 1e-6),
    (math.inf, _EPOCH, 1e-9),
)
"""Rules for numbers as times: (bound on the size, first day, seconds per unit). Spreadsheets count the days since 1899:
a number that would be 2030 or later if counted since 1970 is ambiguous, and one of 2040 or later is a spreadsheet's."""
_CLOCKS = ((_EPOCH, _DAY), (_SHEET, _DAY), (_EPOCH, 1.0), (_EPOCH, 1e-3), (_EPOCH, 1e-6), (_EPOCH, 1e-9))
_SHOWN = 50


class Malformed(ValueError):
    """Error of an unreadable value or record; the message is the reason."""


def as_id(value: object) -> str | None:
    """Return an id as text: whole numbers without a fraction, an OpenAlex address as its last part.

    >>> as_id(2741809800.0), as_id(" https://openalex.org/W1 "), as_id("0001001")
    ('2741809800', 'W1', '0001001')

    Raises:
        Malformed: a fraction, an inexact number (also as the text 2.74E+09), a text with control characters, or no
            text or number.
    """
    value = _plain(value)
    if value is None:
        return None
    if isinstance(value, str):
        if _CONTROL.search(value):
            raise Malformed(f"an id with a control character: {_shown(value)}")
        if _ROUNDED.fullmatch(value):
            raise Malformed(f"an id of which only the first digits are left: {value}")
        address = _OPENALEX.fullmatch(value)
        if address is not None:
            return address[1].upper()
        return value[:-2] if value.endswith(".0") and value[:-2].isdecimal() else value
    return str(_whole(value, "not an id"))


def as_year(value: object) -> int | None:
    """Return a year from 1000 to 9999, from a number, its text, or a date.

    Raises:
        Malformed: it is not one.
    """
    value = _plain(value)
    if value is None:
        return None
    if isinstance(value, (dt.date, dt.datetime)):
        value = value.year
    if isinstance(value, str) and not _WHOLE.fullmatch(value):
        dated = as_date(value)
        return None if dated is None else dated[1]
    year = _whole(value, "no year")
    if not FIRST_YEAR <= year < 10_000:
        raise Malformed(f"no year of four digits: {year}")
    return year


def as_date(value: object, year: int | None = None) -> tuple[dt.date | None, int] | None:
    """Return a day and its year; None for the day if only the year is known, the first of a month without a day.

    A number is a year, a day as 20010504, days since 1970 or a spreadsheet's, or seconds, milli-, micro- or nanoseconds
    since 1970: chosen to agree with `year` if that is known, else by its size.

    >>> as_date("2001-05-04T00:00:00Z"), as_date("2001"), as_date(20010504)
    ((datetime.date(2001, 5, 4), 2001), (None, 2001), (datetime.date(2001, 5, 4), 2001))

    Raises:
        Malformed: it is not a date, or ambiguous.
    """
    value = _plain(value)
    if value is None:
        return None
    if isinstance(value, dt.datetime):
        value = value.date()
    if isinstance(value, dt.date):
        return _dated(value)
    if isinstance(value, str):
        match = _DATE.fullmatch(value)
        if match is not None:
            return _day(value, *match.groups())
    return _date_of_number(_whole(value, "not a date"), year)


def as_count(value: object) -> int | None:
    """Return a count, an integer from 0 on.

    Raises:
        Malformed: it is not one.
    """
    value = _plain(value)
    if value is None:
        return None
    count = _whole(value, "not a count")
    if not 0 <= count <= MAX_COUNT:
        raise Malformed(f"not a count: {_shown(value)}")
    return count


def as_real(value: object) -> float | None:
    """Return a finite number.

    Raises:
        Malformed: it is not one.
    """
    value = _plain(value)
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(cast("float", value))
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise Malformed(f"not a number: {_shown(value)}")
    return number


def as_text(value: object) -> str | None:
    """Return a text unchanged; a number as its digits, a list of one as its element.

    Raises:
        Malformed: a list of several, an object, or bytes that are not UTF-8.
    """
    if isinstance(value, str):
        return value or None
    if isinstance(value, list):
        some = cast("list[object]", value)
        if len(some) > 1:
            raise Malformed(f"not a text: {_shown(some)}")
        return as_text(some[0]) if some else None
    value = _plain(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise Malformed(f"not a text: {_shown(value)}")
    return str(int(value)) if value == value // 1 else str(value)


def written(text: str | None) -> str | None:
    """Return a text as it stands; None where it is empty, or white space alone."""
    return text if text and not text.isspace() else None


def as_list(value: object) -> list[object]:
    """Return a list, also from its JSON text; a scalar as a list of one, null and an empty object as an empty list.

    Raises:
        Malformed: a text that begins like a list but is not one.
    """
    if value is None or value == {}:
        return []
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            return msgspec.json.decode(value, type=list[object])
        except (msgspec.DecodeError, RecursionError):
            pass
        try:  # as Python writes it
            return msgspec.json.decode(value.replace("'", '"'), type=list[object])
        except (msgspec.DecodeError, RecursionError):
            raise Malformed(f"not a list: {_shown(value)}") from None
    return cast("list[object]", value) if isinstance(value, list) else [value]


def as_ids(value: object) -> tuple[list[str], int]:
    """Return the ids of a list, and the number of other elements; a text may contain several ids.

    >>> as_ids("W1|W2"), as_ids([1.0, None, {"id": "a"}, True])
    ((['W1', 'W2'], 0), (['1', 'a'], 1))
    """
    try:
        items = as_list(value)
    except Malformed:
        return [], 1
    if len(items) == 1 and isinstance(items[0], str):
        items = list[object](re.split(r"[\s|;,]+", items[0]))
    ids, bad = list[str](), 0
    for item in items:
        if isinstance(item, dict) and len(cast("dict[str, object]", item)) == 1:
            item = next(iter(cast("dict[str, object]", item).values()))
        try:
            one = as_id(item)
        except Malformed:
            bad += 1
        else:
            if one is not None:
                ids.append(one)
    return ids, bad


def as_texts(value: object) -> list[str]:
    """Return the texts of a list; those of one text between bars, or between semicolons.

    >>> as_texts("physics; optics"), as_texts(["a; b", "c"])
    (['physics', 'optics'], ['a; b', 'c'])

    Raises:
        Malformed: it is not a list of texts.
    """
    items = as_list(value)
    if isinstance(value, str) and items == [value]:
        items = list[object](value.split("|" if "|" in value else ";"))
    return [text for item in items if (text := as_text(item.strip() if isinstance(item, str) else item)) is not None]


def as_flag(value: object) -> bool:
    """Return True for true, 1 and their texts; False for false, 0, null and their texts.

    Raises:
        Malformed: it is neither.
    """
    value = _plain(value)
    word = str(value).lower() if isinstance(value, (str, bool, int, float)) else value
    if word in _NO:
        return False
    if word not in _YES:
        raise Malformed(f"neither true nor false: {_shown(value)}")
    return True


def as_index(value: object) -> dict[str, list[int]] | None:
    """Return an abstract's index from a mapping, its JSON text, or rows of key and value; positions are not checked.

    Raises:
        Malformed: it is not one.
    """
    if isinstance(value, str):
        if value.strip().lower() in NULLS:
            return None
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise Malformed("an abstract's index cannot be read") from None
    if value is None or value == []:
        return None
    if isinstance(value, list):  # a parquet map
        rows = [as_object(row) for row in cast("list[object]", value)]
        if not all({"key", "value"} <= row.keys() for row in rows):
            raise Malformed("an abstract's index cannot be read")
        value = {str(row["key"]): row["value"] for row in rows}
    if not isinstance(value, dict):
        raise Malformed("an abstract's index cannot be read")
    plain = {word: as_list(at) for word, at in cast("dict[str, object]", value).items()}
    return cast("dict[str, list[int]]", plain)


def as_object(value: object) -> Mapping[str, object]:
    """Return an object, also from a list of one; an empty one for anything else."""
    if isinstance(value, list) and len(cast("list[object]", value)) == 1:
        value = cast("list[object]", value)[0]
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _plain(value: object) -> object:
    """Return a scalar: texts stripped, bytes as text, None for all values that mean null."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise Malformed("not UTF-8") from None
    if isinstance(value, str):
        text = value.strip()
        return None if len(text) <= 4 and text.lower() in NULLS else text
    return None if isinstance(value, (float, Decimal)) and math.isnan(value) else value


def _whole(value: object, reason: str) -> int:
    """Return an integer, from any type that represents one exactly."""
    if isinstance(value, str) and len(value) <= 20 and _WHOLE.fullmatch(value):
        return int(value.partition(".")[0])
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    raise Malformed(f"{reason}: {_shown(value)}")


def _day(text: str, year: str, month: str | None, day: str | None = None) -> tuple[dt.date | None, int]:
    try:
        return (None, as_year(year) or 0) if month is None else _dated(dt.date(int(year), int(month), int(day or 1)))
    except ValueError:
        raise Malformed(f"not a date: {_shown(text)}") from None


def _dated(day: dt.date) -> tuple[dt.date, int]:
    if day.year < FIRST_YEAR:
        raise Malformed(f"not a date: {day}")
    return day, day.year


def _date_of_number(number: int, year: int | None) -> tuple[dt.date | None, int]:
    plain = (None, number) if FIRST_YEAR <= number < 10_000 else None
    if plain is not None and (number == year or (year is None and number < _LAST_YEAR)):
        return plain
    by_size = next((start, unit) for below, start, unit in _UNITS if abs(number) < below)
    units = [by_size] if year is None else [(start, unit) for start, unit in _CLOCKS if plain is None or unit == _DAY]
    days = [_written_out(number)]
    for start, unit in units:
        if start is not None:
            with suppress(OverflowError):
                days.append((start + dt.timedelta(seconds=number * unit)).date())
    found = next((day for day in days if day is not None and year in (None, day.year)), None)
    if found is not None:
        return _dated(found)
    if plain is None:
        raise Malformed(f"not a date: {number}")
    return plain


def _written_out(number: int) -> dt.date | None:
    """Return the day of digits such as 20010504."""
    text = str(number)
    with suppress(ValueError):
        return dt.date(int(text[:4]), int(text[4:6]), int(text[6:])) if len(text) == 8 and text[0] != "-" else None
    return None


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text[:_SHOWN]
