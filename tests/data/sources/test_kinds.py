"""One function for each kind of field: whatever type a value has, it is the same value, or is refused."""

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest

from tinsmith.data.sources.columns import count_column, date_column, id_column, real_column, text_column, year_column
from tinsmith.data.sources.kinds import (
    Malformed,
    as_count,
    as_date,
    as_id,
    as_ids,
    as_index,
    as_real,
    as_text,
    as_texts,
    as_year,
)

DAY = dt.date(2001, 5, 4)
IDS = [
    (7, "7"), (7.0, "7"), ("7.0", "7"), ("0001001", "0001001"), ("hep-th/0001001", "hep-th/0001001"),
    ("https://openalex.org/W7", "W7"), ("https://api.openalex.org/works/w7/", "W7"), (" a ", "a"),
    (Decimal(7), "7"), ("1e5", "1e5"), ("NA", None), (None, None), (float("nan"), None), ("nan", None), ("", None),
    ("https://doi.org/10.1/a", "https://doi.org/10.1/a"), ("0704.0001", "0704.0001"),
]  # fmt: skip
DATES = [
    (DAY, (DAY, 2001)), (dt.datetime(2001, 5, 4, 9), (DAY, 2001)), ("2001-05-04", (DAY, 2001)),
    ("2001/5/4", (DAY, 2001)), ("2001-05-04T10:00:00.5Z", (DAY, 2001)), ("2001-05-04 10:00", (DAY, 2001)),
    ("2001-05", (dt.date(2001, 5, 1), 2001)), ("2001", (None, 2001)), (2001, (None, 2001)), (2001.0, (None, 2001)),
    (988934400, (DAY, 2001)), (988934400000, (DAY, 2001)), (988934400000000.0, (DAY, 2001)),
    (988934400 * 10**9, (DAY, 2001)), ("988934400000", (DAY, 2001)), (11446, (DAY, 2001)), (None, None), ("NaT", None),
    (20010504, (DAY, 2001)), ("20010504", (DAY, 2001)), (37015, (DAY, 2001)), ("2001.0", (None, 2001)), ("#N/A", None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), IDS)
def test_an_id_is_the_same_in_every_type(value: object, expected: str | None) -> None:
    assert as_id(value) == expected


@pytest.mark.parametrize(("value", "expected"), DATES)
def test_a_date_is_the_same_in_every_type(value: object, expected: object) -> None:
    assert as_date(value) == expected


def test_the_year_decides_the_unit_of_a_time() -> None:
    assert as_date(345_600_000, 1970) == (dt.date(1970, 1, 5), 1970)
    assert as_date(345_600_000, 1980) == (dt.date(1980, 12, 14), 1980)
    assert as_date(7_428, 1990) == as_date(32_997, 1990) == (dt.date(1990, 5, 4), 1990) == as_date(19_900_504, 1990)
    assert as_date(23_000, 1962) == (dt.date(1962, 12, 20), 1962)
    assert as_date(1971, 1970) == as_date(1971) == (None, 1971)
    with pytest.raises(Malformed):
        as_date(345_600_000, 1999)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (as_id, [1.5, "2.74E+09", "1e+05", True, "a\nb", [1], {"a": 1}, 1e300, float("inf"), b"\xff"]),
        (as_year, [0, 90, "01", "0001-01-01", dt.date(1, 1, 1), 10_000, "in press", 1999.5, True, [1999]]),
        (as_date, ["3 May 2001", "2001-13-01", "2001-02-30", True, [1], 1.5, "20011304", 23_000, 12, "0001-01-01"]),
        (as_count, [-1, 1.5, "many", True, 2**63]),
        (as_real, ["many", True, float("inf"), [1]]),
        (as_text, [["a", "b"], {"a": 1}, True]),
        (as_texts, [[["a", "b"]]]),
        (as_index, ["{", [1], 3, "[" * 100_000]),
    ],
)
def test_what_is_no_such_value_is_refused(kind: object, values: list[object]) -> None:
    for value in values:
        with pytest.raises(Malformed):
            kind(value)  # type: ignore[operator]


def test_other_kinds_are_the_same_in_every_type() -> None:
    assert [as_year(v) for v in (1999, 1999.0, "1999", "1999.0", "1999-05-04", DAY, None)] == [1999] * 5 + [2001, None]
    assert [as_count(v) for v in (3, 3.0, "3", "3.0", Decimal(3), None, "nan")] == [3] * 5 + [None] * 2
    assert [as_text(v) for v in ("a", ["a"], 3, 3.0, "", [], None)] == ["a", "a", "3", "3", None, None, None]
    assert as_ids('["W1", "W2", null]') == (["W1", "W2"], 0)
    assert as_ids([{"element": "W1"}, "https://openalex.org/W2", 1.5]) == (["W1", "W2"], 1)
    assert as_texts('["a", "b"]') == as_texts("a | b") == as_texts("a;b;") == ["a", "b"]
    assert as_texts(["a; b"]) == ["a; b"]
    assert as_index('{"a": [0]}') == as_index([{"key": "a", "value": [0]}]) == as_index({"a": 0}) == {"a": [0]}


def test_a_column_is_read_like_its_values() -> None:
    texts = [value for value, _ in IDS if isinstance(value, str)] + ["a\tb"]
    column = id_column(pl.Series(texts))
    expected = [one for value, one in IDS if isinstance(value, str)]
    assert column.values.to_list() == [*expected, None]
    assert column.bad.to_list() == [False] * len(expected) + [True]
    assert id_column(pl.Series([2741809800.0, None, float("nan")])).values.to_list() == ["2741809800", None, None]
    assert id_column(pl.Series([1.5, 2.0])).bad.to_list() == [True, False]
    assert year_column(pl.Series(["1999", "x", None, "2001-02-03"])).values.to_list() == [1999, None, None, 2001]
    assert year_column(pl.Series([99, 1999])).bad.to_list() == [True, False]
    days = ["2001-05-04", "2001/05/04 10:00", "x", None, "2001"]
    column = date_column(pl.Series(days), pl.Series([2001] * 5))
    assert column.values.to_list() == [DAY, DAY, None, None, None]
    assert column.bad.to_list() == [False, False, True, False, False]
    times = pl.Series([988934400000, None])
    assert date_column(times, pl.Series([2001, 2002])).values.to_list() == [DAY, None]
    assert date_column(pl.Series([dt.datetime(2001, 5, 4)]), pl.Series([2001])).values.to_list() == [DAY]
    assert count_column(pl.Series([1.0, -1.0, None])).values.to_list() == [1, None, None]
    column = real_column(pl.Series([0.5, float("inf"), float("nan")]))
    assert (column.values.to_list(), column.bad.to_list()) == ([0.5, None, None], [False, True, False])
    assert text_column(pl.Series([1, 2])).values.to_list() == ["1", "2"]
