"""One function for each kind of field: whatever type a value has, it is the same value, or is refused."""

import datetime as dt
import gzip
import random
import tracemalloc
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from building import SOURCE
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.data.abstracts import MAX_POSITION, from_inverted_index, to_inverted_index
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper
from tinsmith.data.sources import delimited, lines, streams
from tinsmith.data.sources.columns import count_column, date_column, id_column, real_column, text_column, year_column
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Delimited, read_layout
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
from tinsmith.data.sources.lines import DamagedFile, read_blocks
from tinsmith.types.errors import DataError

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


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ({"Hello": [0, 2], "world": [1]}, "Hello world Hello"),
        ({"a": [0], "b": [2]}, "a b"),
        ({"a": [5], "b": [100]}, "a b"),
        ({"b": [1], "a": [0]}, "a b"),
        ({"$x": [1], ".": [2], "a.b": [0]}, "a.b $x ."),
        ({"first": [0], "second": [0], "third": [1]}, "first third"),
        ({"a": [0, 0, 1]}, "a a"),
        ({"": [0], "a": [1]}, " a"),
        ({"a": []}, None),
        ({}, None),
        ({"end": [MAX_POSITION - 1], "start": [0]}, "start end"),
    ],
)
def test_an_index_becomes_text(index: dict[str, list[int]], text: str | None) -> None:
    assert from_inverted_index(index) == text


@pytest.mark.parametrize("index", [{"a": [-2]}, {"Hello": [-4], "world": [1]}, {"x": [-6], "y": [1], "z": [-4]}])
def test_a_negative_position_is_never_counted_from_the_end(index: dict[str, list[int]]) -> None:
    with pytest.raises(DataError, match="position"):
        from_inverted_index(index)


@pytest.mark.parametrize("position", [-1, -2, 1.5, 1.0, 10**9, MAX_POSITION, 2**70, "1", None, [1]])
def test_impossible_positions_are_refused_without_allocating(position: object) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="position"):
            from_inverted_index({"a": [0], "b": [position]})  # type: ignore[list-item]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), min_size=1))
def test_text_survives_the_way_there_and_back(words: list[str]) -> None:
    text = " ".join(words)
    assert from_inverted_index(to_inverted_index(text)) == " ".join(text.split())


def numbered(path: Path) -> list[tuple[int, bytes]]:
    return [line for block in read_blocks(path, path.name) for line in block.lines()]


def test_lines_have_their_numbers_and_no_marks(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n \t\n\xef\xbb\xbffour\nfive\r\nlast")
    expected = [(1, b"one"), (4, b"four"), (5, b"five"), (6, b"last")]
    assert numbered(path) == expected
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert numbered(path) == expected
    path.write_bytes(b"")
    assert numbered(path) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 4096])
def test_blocks_and_members_may_be_cut_anywhere(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_COMPRESSED", size)
    monkeypatch.setattr(streams, "_PLAIN", size)
    rng = random.Random(0)
    expected = [(i, b"%d" % rng.getrandbits(8 * (i % 9))) for i in range(1, 200)]
    texts = [b"".join(line + b"\n" for _, line in expected[a : a + 50]) for a in range(0, 200, 50)]
    path = tmp_path / "f"
    path.write_bytes(b"".join(texts))
    assert numbered(path) == expected
    path.write_bytes(b"".join(map(gzip.compress, texts)) + bytes(600))
    assert numbered(path) == expected


def test_a_truncated_or_corrupt_file_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    rng = random.Random(0)
    content = b"".join(b"%d\n" % rng.getrandbits(60) for _ in range(9000))
    packed = gzip.compress(content)
    path = tmp_path / "part.gz"
    for damaged in (packed[:-9], packed[: len(packed) // 2], packed[:5], packed[:100] + packed[120:]):
        path.write_bytes(damaged)
        blocks = read_blocks(path, "works/part.gz")
        found: list[bytes] = []
        with pytest.raises(DamagedFile, match=r"works/part\.gz: .+") as caught:
            found.extend(line for block in blocks for _, line in block.lines())
        assert content.startswith(b"".join(line + b"\n" for line in found))
        assert caught.value.line == len(found) + 1
        assert "--skip-bad" in str(caught.value)


def test_a_line_without_end_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 1000)
    monkeypatch.setattr(streams, "_PLAIN", 100)
    path = tmp_path / "f"
    path.write_bytes(b"short\n" + b"x" * 2000)
    with pytest.raises(DamagedFile, match=r"(?m)^f: .* 1\)$"):
        numbered(path)


def table(path: Path, out: Path, **choices: bool) -> tuple[list[tuple[object, ...]], list[int], list[object]]:
    with CorpusWriter(out, source=SOURCE, force=True) as writer:
        writer.add([Paper(id="a", year=2000)])
        messages: list[object] = []
        writer.quarantine = lambda *entry: messages.append(entry)  # type: ignore[method-assign]
        layout = read_layout(path, "t.tsv", (b"#",))
        file = Delimited(path, "t.tsv", ("x", "y"), layout, comments=(b"#",), **({"header": False} | choices))
        rows = [
            (row, n)
            for r in file.rows(Complaints(writer))
            for row, n in zip(r.frame.rows(), r.numbers.tolist(), strict=True)
        ]
    return [row for row, _ in rows], [n for _, n in rows], messages


def test_fields_of_a_table_are_kept_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(
        'x\ty\n"a\t\'b"\r\n# comment\n1\t2\t3\n\t4\nü\t 5 \nbad\xff\t6\n7\n8\t9'.encode("latin-1").replace(
            b"\xfc", b"\xc3\xbc"
        )
    )
    rows, numbers, printed = table(path, tmp_path / "out", header=True)
    assert rows == [('"a', "'b\""), (None, "4"), ("ü", " 5 "), ("8", "9")]
    assert numbers == [2, 5, 6, 9]
    assert printed == [
        ("t.tsv", 4, "3 fields for 2", "1\t2\t3"),
        ("t.tsv", 7, "not UTF-8", "bad\ufffd\t6"),
        ("t.tsv", 8, "1 field for 2", "7"),
    ]
    _, _, printed = table(path, tmp_path / "out", header=True, full=True)
    assert printed[1] == ("t.tsv", 5, "an empty field", "\t4")


def test_the_fast_and_the_careful_way_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    content = [b"%d\t%d" % (rng.randrange(99), rng.randrange(99)) for _ in range(3000)]
    for place, odd in ((500, b"1"), (900, b""), (901, b"1\t2\t3"), (1500, b"\t1"), (2000, b"#a\tb")):
        content[place] = odd
    path = tmp_path / "t.tsv"
    path.write_bytes(b"\n".join(content))
    monkeypatch.setattr(streams, "_PLAIN", 512)
    monkeypatch.setattr(delimited, "_MERGED", 1)
    for full in (False, True):
        fast = table(path, tmp_path / "out", full=full)
        with monkeypatch.context() as patch:
            patch.setattr(Delimited, "_is_regular", lambda *_: False)
            assert table(path, tmp_path / "out", full=full) == fast
        assert [entry[1] for entry in fast[2]] == [501, 902] + [1501] * full  # type: ignore[index]
