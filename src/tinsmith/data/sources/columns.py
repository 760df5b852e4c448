"""Readers of table columns by the rules of `kinds`: vectorised if their type allows it, else value by value.

Each returns the column and a mask of its unreadable values, which are null in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tinsmith.data.sources.kinds import (
    FIRST_YEAR,
    MAX_COUNT,
    Malformed,
    as_count,
    as_date,
    as_flag,
    as_id,
    as_real,
    as_text,
    as_year,
)

_ODD_ID = r"(?i)^(?:nan|nat|null|none|\\n|<na>|na|n/a|#n/a)?$|^\s|\s$|[\x00-\x1f\x7f]|openalex\.org|\.0$|^\d[.\d]*e\+"
"""Pattern of texts that `as_id` may change or reject; all others stay as they are."""
_EXACT = 2.0**53


@dataclass(frozen=True, slots=True)
class Column:
    """Column, and the mask of its unreadable values."""

    values: pl.Series
    bad: pl.Series
    """Boolean, of the same length."""


def id_column(values: pl.Series) -> Column:
    """Read ids (String)."""
    if values.dtype.is_integer():
        return _good(values.cast(pl.String))
    if values.dtype.is_float():
        exact = values.is_finite() & (values == values.round()) & (values.abs() <= _EXACT)
        if (exact | values.is_nan() | values.is_null()).all():
            return _good(values.set(~exact.fill_null(False), None).cast(pl.Int64).cast(pl.String))
    if values.dtype == pl.String:
        odd = values.str.contains(_ODD_ID).fill_null(False)
        return _good(values) if not odd.any() else _patched(values, odd, as_id, pl.String())
    return _one_by_one(values, as_id, pl.String())


def year_column(values: pl.Series) -> Column:
    """Read years (Int32)."""
    if values.dtype.is_integer() and values.is_between(FIRST_YEAR, 9999).fill_null(True).all():
        return _good(values.cast(pl.Int32))
    return _one_by_one(values, as_year, pl.Int32())


def date_column(values: pl.Series, years: pl.Series) -> Column:
    """Read days (Date); `years` determine the unit of numbers."""
    if values.dtype == pl.Date:
        return _good(values)
    if isinstance(values.dtype, pl.Datetime):
        return _good(values.dt.date())
    if values.dtype == pl.String:
        days = values.str.to_date("%Y-%m-%d", strict=False)
        odd = days.is_null() & values.is_not_null()
        return _good(days) if not odd.any() else _patched(days, odd, _day, pl.Date(), values)
    pairs = list[object](zip(values.to_list(), years.to_list(), strict=True))
    return _mapped(pairs, _day_of_pair, pl.Date())


def _day_of_pair(pair: tuple[object, int | None]) -> object:
    return _day(*pair)


def count_column(values: pl.Series) -> Column:
    """Read counts (Int64)."""
    if values.dtype.is_integer() and values.is_between(0, MAX_COUNT).fill_null(True).all():
        return _good(values.cast(pl.Int64))
    return _one_by_one(values, as_count, pl.Int64())


def real_column(values: pl.Series) -> Column:
    """Read finite numbers (Float64)."""
    if values.dtype.is_numeric() or values.dtype == pl.String:
        numbers = values.cast(pl.Float64, strict=False)
        odd = (
            values.is_not_null() & ~numbers.is_finite().fill_null(False) & ~numbers.is_nan().fill_null(False)
        ).rename("")
        if not odd.any():
            return _good(numbers.fill_nan(None))
    return _one_by_one(values, as_real, pl.Float64())


def text_column(values: pl.Series) -> Column:
    """Read texts (String) unchanged."""
    if values.dtype == pl.String:
        return _good(values)
    return _one_by_one(values, as_text, pl.String())


def flag_column(values: pl.Series) -> Column:
    """Read flags (Boolean); null is False."""
    if values.dtype == pl.Boolean:
        return _good(values.fill_null(False))
    read = _one_by_one(values, as_flag, pl.Boolean())
    return Column(read.values.fill_null(False), read.bad)


def _day(value: object, year: int | None = None) -> object:
    found = as_date(value, year)
    return None if found is None else found[0]


def _good(values: pl.Series) -> Column:
    return Column(values, pl.repeat(False, len(values), dtype=pl.Boolean(), eager=True))


def _patched(
    values: pl.Series,
    odd: pl.Series,
    kind: Callable[[object], object],
    dtype: pl.DataType,
    raw: pl.Series | None = None,
) -> Column:
    """Read only the irregular values again, one by one."""
    read = _one_by_one((values if raw is None else raw).filter(odd), kind, dtype)
    places = odd.arg_true()
    bad = pl.repeat(False, len(values), dtype=pl.Boolean(), eager=True)
    return Column(values.clone().scatter(places, read.values), bad.scatter(places, read.bad))


def _one_by_one(values: pl.Series, kind: Callable[[object], object], dtype: pl.DataType) -> Column:
    return _mapped(values.to_list(), kind, dtype)


def _mapped(values: list[object], kind: Callable[..., object], dtype: pl.DataType) -> Column:
    read, bad = list[object](), list[bool]()
    known: dict[object, object] = {}
    for value in values:
        try:
            if isinstance(value, (str, int, float, tuple)):
                key = (type(value), value)
                if key not in known:
                    known[key] = kind(value)
                read.append(known[key])
            else:
                read.append(kind(value))
            bad.append(False)
        except Malformed:
            read.append(None)
            bad.append(True)
    return Column(pl.Series("", read, dtype), pl.Series("", bad, pl.Boolean()))
