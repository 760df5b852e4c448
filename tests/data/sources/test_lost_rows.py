"""Readers that meet another form read it, or end the build with what was seen; they never lose all and end well."""

import bz2
import gzip
import json
import lzma
import sys
from pathlib import Path

import polars as pl
import pytest
import zstandard
from building import ROOT, edges_of, quarantined
from openalex_works import line, work

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import CorpusCard
from tinsmith.data.losses import FEW, SHARE, too_many
from tinsmith.data.sources.files import FilesSource
from tinsmith.data.sources.openalex.source import OpenAlexChoices, PagesSource, SnapshotSource
from tinsmith.data.sources.sciscinet.source import SciSciNetSource
from tinsmith.data.sources.source import build_corpus
from tinsmith.types.errors import DataError

sys.path.insert(0, str(ROOT / "bench"))

from mutations_data import TABLES, verdict

PAIRS = [("p1", "p0"), ("p2", "p0"), ("p3", "p1")]


def papers(count: int = 4, first: int = 0) -> bytes:
    return b"".join(b'{"id": "p%d", "year": %d}\n' % (n, 2000 + n % 20) for n in range(first, first + count))


def build(folder: Path, edges: bytes, lines: bytes = papers(), *, skip_bad: bool = False) -> CorpusCard:
    (folder / "p.jsonl").write_bytes(lines)
    (folder / "e.tsv").write_bytes(edges)
    return build_corpus(FilesSource(folder / "p.jsonl", folder / "e.tsv", skip_bad), folder / "out", force=True)


def table(separator: str, header: str = "", *, more: str = "", quote: str = "", turned: bool = False) -> bytes:
    rows = [pair[::-1] if turned else pair for pair in PAIRS]
    lines = [separator.join(f"{quote}{one}{quote}" for one in row) + more for row in rows]
    return "\n".join([*([header] if header else []), *lines, ""]).encode()


@pytest.mark.parametrize(
    "content",
    [
        table("\t"),
        table(","),
        table(";"),
        table(" "),
        table("|"),
        table(",", "citing,cited"),
        table("\t", "Citing\tCited"),
        table(",", "source,target"),
        table(",", "from,to"),
        table(",", "citing_paperid,cited_paperid"),
        table("\t", "work_id\treferenced_work_id"),
        table("\t", "cited\tciting", turned=True),
        table(",", "cited_paperid,citing_paperid", turned=True),
        table("\t", "target\tsource", turned=True),
        table("\t", "paper_id\tciting_paper_id", turned=True),
        table("\t", more="\t1"),
        table(",", "citing,cited,year", more=",1999"),
        table(",", '"citing","cited"', quote='"'),
        table("\t", '"citing"\t"cited"', quote='"'),
        table(",", quote='"'),
        b"\xef\xbb\xbf" + table(",", "citing,cited").replace(b"\n", b"\r\n"),
        b"sep=;\r\n" + table(";", "cited;citing", turned=True).replace(b"\n", b"\r\n"),
        b"sep=,\n" + table(","),
        b"\x5a\x2a\x4d\x18\x02\0\0\0ab" + zstandard.ZstdCompressor().compress(table("\t")),
        b"# a comment\n% another\n" + table("\t"),
        b"# cited citing\n" + table("\t", turned=True),
        b"# cited citing\n" + table("\t", more="\t1", turned=True),
        b"# Source: https://example.org/to/edges\n" + table("\t"),
        b"# To cite this data: see the paper\n" + table("\t"),
        b"% made from a list to a table\n" + table("\t"),
        b"# cited reference\n" + table(","),
        table("\t").replace(b"p1\t", b" p1 \t"),
        table("\t", "citing\tcited").decode().encode("utf-16"),
        bz2.compress(table("\t")),
        lzma.compress(table("\t")),
        zstandard.compress(table("\t")),
    ],
)
def test_edges_are_read_in_every_form_that_says_what_it_is(tmp_path: Path, content: bytes) -> None:
    card = build(tmp_path, content)
    assert (card.edges, card.quarantined) == (3, 0)
    assert sorted(edges_of(Corpus.open(tmp_path / "out"))) == PAIRS


def test_ids_that_a_table_made_fractions_meet_those_that_it_did_not(tmp_path: Path) -> None:
    card = build(
        tmp_path, b"2.0,1\n3.0,1\n", b'{"id": 1, "year": 2000}\n{"id": "2", "year": 2001}\n{"id": 3.0, "year": 2002}\n'
    )
    assert (card.edges, card.dropped["dangling_edges"]) == (2, 0)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (b"", "holds no edge"),
        (b"citing\tcited\n", "holds no edge"),
        (b"p1\np2\np3\n", "3 of 3 lines are lost: 3 1 field for 2"),
        (b"a\tb\nc\td\n", "none of 2 edges joins two papers"),
        (b"p1\tp1\n", "none of 1 edges"),
        (b"citing,paper_name\np1,p0\n", "do not say which end"),
        (b"cited,reference\np1,p0\n", "do not say which end"),
    ],
)
def test_a_table_without_an_edge_ends_the_build(tmp_path: Path, edges: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build(tmp_path, edges)
    assert not (tmp_path / "out").exists()


def test_a_share_of_lines_above_the_limit_ends_the_build_and_a_smaller_one_is_counted(tmp_path: Path) -> None:
    lines = papers(1000)
    edges = b"".join(b"p%d\tp%d\n" % (n, n - 1) for n in range(1, 1000) if n % 20)
    card = build(tmp_path, edges, lines + b"{\n" * 9)
    assert (card.papers, card.quarantined) == (1000, 9)
    with pytest.raises(DataError, match="20 of 1,020 lines are lost") as caught:
        build(tmp_path, edges, lines + b"{\n" * 20)
    assert "p.jsonl:1001" in str(caught.value)
    assert "--skip-bad" in str(caught.value)
    assert build(tmp_path, edges, lines + b"{\n" * 20, skip_bad=True).quarantined == 20


def test_the_rule_has_one_share_and_spares_a_few() -> None:
    assert not too_many(0, 0)
    assert too_many(1, 1)
    assert not too_many(FEW - 1, FEW)
    assert too_many(FEW, FEW + 1)
    assert not too_many(round(SHARE * 10_000), 10_000)
    assert too_many(round(SHARE * 10_000) + 1, 10_000)


def test_ids_written_in_two_ways_end_the_build(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": "%07d", "year": %d}\n' % (n, 1990 + n // 50) for n in range(1, 500))
    edges = b"".join(b"%d\t%d\n" % (n, n - 1) for n in range(2, 300)) + b"".join(
        b"%07d\t%07d\n" % (n, n - 1) for n in range(300, 400)
    )
    with pytest.raises(DataError, match="298 of 398 edges are lost: ids are written in two ways"):
        build(tmp_path, edges, lines)
    # Papers that are not in the corpus are no fault.
    strangers = b"".join(b"%07d\tx%d\n" % (n, n) for n in range(2, 300))
    assert build(tmp_path, b"0000300\t0000001\n" + strangers, lines).dropped["dangling_edges"] == 298


def test_edges_that_point_into_the_future_are_taken_for_turned_round(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": "p%d", "year": %d}\n' % (n, 1990 + n) for n in range(20))
    turned = b"".join(b"p%d\tp%d\n" % (n - 1, n) for n in range(1, 20))
    with pytest.raises(DataError, match="19 of 19 edges point to later papers"):
        build(tmp_path, turned, lines)
    assert build(tmp_path, b"citing\tcited\n" + turned, lines).forward_edges == 19


def test_values_that_cannot_be_read_are_counted_and_too_many_end_the_build(tmp_path: Path) -> None:
    few = b'{"id": "p4", "year": 2004, "date": "3 May"}\n{"id": "p5", "year": 2005, "cited_by_count": "many"}\n'
    card = build(tmp_path, table("\t"), papers() + few)
    assert (card.papers, card.dropped["bad_dates"], card.dropped["bad_values"]) == (6, 1, 1)
    many = b"".join(b'{"id": "q%d", "year": 2004, "date": "3.5.2004"}\n' % n for n in range(10))
    with pytest.raises(DataError, match="10 dates cannot be read"):
        build(tmp_path, table("\t"), papers() + many)


@pytest.mark.parametrize(
    "bad",
    [
        b"[" * 100_000,
        b'{"x": ' + b"[" * 100_000,
        b'{"id": "\xff", "year": 2000}',
        b'{"id": "a\\u0000", "year": 2000}',
        b"\0\0",
    ],
)
def test_a_line_that_no_reader_can_take_is_set_aside(tmp_path: Path, bad: bytes) -> None:
    card = build(tmp_path, table("\t"), papers() + bad + b"\n")
    assert (card.papers, card.quarantined) == (4, 1)


WORKS = [work(number) for number in range(1, 31)]
LINES = b"".join(line(record) + b"\n" for record in WORKS)
PAGE = {"meta": {"count": 30, "next_cursor": None}, "results": WORKS}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("lines.json", LINES),
        ("array.jsonl", line(WORKS)),
        ("pretty.json", json.dumps(WORKS, indent=2).encode()),
        ("returns.json", LINES.replace(b"\n", b"\r")),
        ("odd.json", b"\xef\xbb\xbf \r\n" + json.dumps(WORKS, indent=1).replace("\n", "\r\n").encode()),
        ("page.jsonl", line(PAGE)),
        ("page.json", json.dumps(PAGE, indent=2).encode()),
        ("pages.jsonl", line(PAGE | {"results": WORKS[:10]}) + b"\n" + line(PAGE | {"results": WORKS[10:]})),
        ("values.json", b"\n".join(json.dumps(record, indent=1).encode() for record in WORKS)),
        ("arrays.json", line(WORKS[:10]) + b"\n" + line(WORKS[10:])),
        ("utf16.json", json.dumps(WORKS).encode("utf-16")),
        ("utf16le.json", json.dumps(WORKS).encode("utf-16-le")),
        ("w.jsonl.zst", zstandard.compress(LINES)),
        ("w.json.gz", gzip.compress(line(WORKS))),
    ],
)
def test_works_are_read_however_a_file_holds_them(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    card = build_corpus(PagesSource((tmp_path / name,), OpenAlexChoices()), tmp_path / "out")
    (tmp_path / "good.jsonl").write_bytes(LINES)
    good = build_corpus(PagesSource((tmp_path / "good.jsonl",), OpenAlexChoices()), tmp_path / "good")
    assert (card.papers, card.quarantined, card.fingerprint) == (30, 0, good.fingerprint)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.jsonl", b"PAR1" + bytes(90), "parquet"),
        ("w.json", b"PK\x03\x04" + bytes(90), "a zip archive"),
        ("w.jsonl.gz", b"", "the file is empty"),
        ("w.jsonl.zst", zstandard.compress(LINES)[:-20], "the zstd stream ends early"),
        ("w.jsonl.zst", b"\x28\xb5\x2f\xfd" + bytes(range(90)), "not zstd"),
        ("w.json", line(WORKS)[:-1], "the JSON text ends early"),
        (
            "w.json",
            json.dumps(WORKS, indent=1).replace('"Title 9"', '"Title 9').encode(),
            "a quotation mark is missing",
        ),
        ("w.json", b"<html>\n" * 9, "9 of 9 records are lost"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_it_is(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        build_corpus(PagesSource((tmp_path / name,), OpenAlexChoices()), tmp_path / "out")


@pytest.mark.parametrize("size", [1, 7, 100])
def test_an_array_may_be_cut_anywhere(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinsmith.data.sources.streams._PLAIN", size)
    monkeypatch.setattr("tinsmith.data.sources.json_blocks._PEEK", 1)
    odd = [work(n, display_name='a "quoted" \\ [title], {n}\\') for n in range(1, 6)]
    (tmp_path / "w.json").write_text(json.dumps(odd, indent=1))
    card = build_corpus(PagesSource((tmp_path / "w.json",), OpenAlexChoices()), tmp_path / "out")
    assert (card.papers, card.quarantined) == (5, 0)
    assert set(Corpus.open(tmp_path / "out").papers("title")["title"]) == {'a "quoted" \\ [title], {n}\\'}


def test_references_and_ids_of_works_may_be_numbers(tmp_path: Path) -> None:
    records = [
        work(1, id=1),
        work(2, referenced_works=[1, 7]),
        work(3, referenced_works="W1|W2"),
        work(4, referenced_works="['W1']"),
    ]
    (tmp_path / "w.json").write_bytes(line(records))
    card = build_corpus(PagesSource((tmp_path / "w.json",), OpenAlexChoices()), tmp_path / "out")
    assert sorted(edges_of(Corpus.open(tmp_path / "out"))) == [("W2", "W1"), ("W3", "W1"), ("W3", "W2"), ("W4", "W1")]
    assert card.dropped["dangling_edges"] == 3
    records.append(work(5, referenced_works=[True, {"a": 1, "b": 2}]))
    (tmp_path / "w.json").write_bytes(line(records))
    card = build_corpus(PagesSource((tmp_path / "w.json",), OpenAlexChoices()), tmp_path / "again")
    assert card.dropped["bad_references"] == 2


def test_moments_in_a_parquet_part_are_days(tmp_path: Path) -> None:
    part = tmp_path / "data/parquet/works/updated_date=2025-11-06/part_0000.parquet"
    part.parent.mkdir(parents=True)
    rows = [record | {"abstract_inverted_index": json.dumps(record["abstract_inverted_index"])} for record in WORKS]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    days = frame["publication_date"].str.to_date()
    for dates in (days.cast(pl.Datetime("us")), days.cast(pl.Datetime("ns")).dt.epoch("ms"), days.to_physical()):
        frame.with_columns(dates.alias("publication_date")).write_parquet(part)
        card = build_corpus(SnapshotSource(tmp_path, OpenAlexChoices()), tmp_path / "out", force=True)
        read = Corpus.open(tmp_path / "out").papers("id", "date")
        assert dict(read.rows()) == {f"W{n}": day for n, day in enumerate(days, 1)}
        assert card.dropped["bad_dates"] == 0
    frame.rename({"publication_year": "pub_year", "publication_date": "day"}).write_parquet(part)
    with pytest.raises(DataError, match='is "pub_year" that one'):
        build_corpus(SnapshotSource(tmp_path, OpenAlexChoices()), tmp_path / "out", force=True)


def sciscinet(folder: Path, papers: dict[str, list[object]], references: dict[str, list[object]]) -> SciSciNetSource:
    folder.mkdir(exist_ok=True)
    pl.DataFrame(papers, strict=False).write_parquet(folder / "sciscinet_papers.parquet")
    pl.DataFrame(references, strict=False).write_parquet(folder / "sciscinet_paperrefs.parquet")
    return SciSciNetSource(folder)


def test_sciscinet_tables_meet_whatever_the_types_of_their_ids(tmp_path: Path) -> None:
    papers: dict[str, list[object]] = {
        "paperid": [2741809800 + n for n in range(4)],
        "year": [2000.0, 2001.0, 2002.0, 2003.0],
        "papertitleabstract": ["A title. An abstract of words.", "A line\nAnd text", "Only a title", None],
    }
    references: dict[str, list[object]] = {
        "cited_paperid": [2741809800.0, 2741809801.0, 2741809800.0],
        "citing_paperid": [2741809801.0, 2741809802.0, None],
    }
    card = build_corpus(sciscinet(tmp_path / "t", papers, references), tmp_path / "out")
    assert (card.edges, card.quarantined) == (2, 1)
    assert Corpus.open(tmp_path / "out").papers("title", "abstract").rows() == [
        ("A title.", "An abstract of words."), ("A line", "And text"), ("Only a title", None), (None, None),
    ]  # fmt: skip
    strangers = references | {"citing_paperid": [1.0, 2.0, 3.0]}
    with pytest.raises(DataError, match="none of 3 edges joins two papers"):
        build_corpus(sciscinet(tmp_path / "t", papers, strangers), tmp_path / "again")
    unknown = {"paperidentifier": papers["paperid"], "year": papers["year"]}
    with pytest.raises(DataError, match='is "paperidentifier" that one'):
        build_corpus(sciscinet(tmp_path / "t", unknown, references), tmp_path / "again")
    texts: dict[str, list[object]] = {"paperid": [1, 2], "title": ["a", "b"]}
    sciscinet(tmp_path / "t", papers, references)
    pl.DataFrame(texts).write_parquet(tmp_path / "t" / "sciscinet_papertitleabstract.parquet")
    with pytest.raises(DataError, match="none of 2 records belongs to a paper"):
        build_corpus(SciSciNetSource(tmp_path / "t"), tmp_path / "again")


def test_a_column_that_counts_the_rows_is_not_taken_for_ids(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": %d, "year": %d}\n' % (n, 1950 + n) for n in range(40))
    rows = "".join(f"{n - 1},{n},{n // 2}\n" for n in range(1, 40)).encode()
    for header in (b"", b",0,1\n"):
        with pytest.raises(DataError, match="counts the rows"):
            build(tmp_path, header + rows, lines)
    assert build(tmp_path, b",citing,cited\n" + rows, lines).edges == 39
    weights = "".join(f"{n},{n // 2},1\n" for n in range(39, 0, -1)).encode()
    assert build(tmp_path, weights, lines).edges == 39


@pytest.mark.parametrize(
    "content",
    [
        b"p1\tp0\t1\n\t\t\np2\tp0\t1\n",
        b"p1\tp0\t1\n \t \t \np2\tp0\t1\n",
        b"p1 p0\np2 p0\n \n",
        b"p1\tp0\np3\tp0\n\xef\xbb\xbfp2\tp0\n",
        b"p1\tp0\np2\t",
    ],
)
def test_what_is_set_aside_does_not_depend_on_where_a_block_ends(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []
    for plain, merged in ((1 << 20, 8 << 20), (1 << 20, 1), (1, 1)):
        monkeypatch.setattr("tinsmith.data.sources.streams._PLAIN", plain)
        monkeypatch.setattr("tinsmith.data.sources.delimited._MERGED", merged)
        card = build(tmp_path, content, skip_bad=True)
        entries = quarantined(tmp_path / "out") if card.quarantined else []
        found.append((card.edges, [(entry["line"], entry["reason"]) for entry in entries]))
    assert found == [found[0]] * 3


def test_an_end_of_which_only_the_first_digits_are_left_is_no_id(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": %d, "year": %d}\n' % (n * 20_000, 1950 + n) for n in range(40))
    edges = "".join(f"{n * 20_000}\t{n // 2 * 20_000}\n" for n in range(1, 40))
    card = build(tmp_path, edges.replace("\t100000\n", "\t1e+05\n", 1).encode(), lines)
    assert (card.edges, card.quarantined) == (38, 1)
    with pytest.raises(DataError, match="an end is no id"):
        build(tmp_path, "".join(f"{n + 10**9:.2e},{n // 2 + 10**9:.2e}\n" for n in range(1, 40)).encode(), lines)


@pytest.mark.parametrize(("key", "ours"), [("Year", "year"), ("ID", "id"), ("ABSTRACT", "abstract")])
def test_a_key_that_is_spelled_otherwise_is_told_and_not_passed_over(tmp_path: Path, key: str, ours: str) -> None:
    record = {"id": "p0", "year": 2000, "abstract": "words"}
    lines = [json.dumps({**{k: v for k, v in record.items() if k != ours}, key: record[ours]}).encode(), papers(3, 1)]
    lines[1] = lines[1] if ours == "abstract" else b""
    with pytest.raises(DataError) as caught:
        build(tmp_path, table("\t"), b"\n".join(lines))
    assert (caught.value.value, caught.value.fix) == (key, f'name it "{ours}"')


def test_a_key_that_is_spelled_otherwise_may_be_missing_from_the_first_records(tmp_path: Path) -> None:
    records = b"".join(b'{"id": "q%d", "year": 2000, "Title": "%s"}\n' % (n, b"t" * 50_000) for n in range(99))
    with pytest.raises(DataError) as caught:
        build(tmp_path, table("\t"), papers() + records)
    assert (caught.value.value, caught.value.fix) == ("Title", 'name it "title"')
    assert build(tmp_path, table("\t"), papers(100) + records).papers == 199  # only early records are checked


def test_a_record_with_a_key_twice_is_set_aside(tmp_path: Path) -> None:
    twice = b'{"id": "a", "year": 1999, "id": "b", "year": 2000}\n'
    card = build(tmp_path, table("\t"), papers() + twice)
    assert (card.papers, card.quarantined) == (4, 1)
    with pytest.raises(DataError, match="a key stands there twice"):
        build(tmp_path, table("\t"), papers() + twice * 6)
    nested = b'{"id": "a", "year": 1999, "authors": [{"id": 1}, {"id": 2}]}\n'
    assert build(tmp_path, table("\t"), papers() + nested).papers == 5


@pytest.mark.parametrize("index", [{"b": [1], "a": [0]}, '{"b": [1], "a": [0]}'])
def test_an_index_in_the_place_of_an_abstract_is_its_text(tmp_path: Path, index: object) -> None:
    record = json.dumps({"id": "a", "year": 1900, "abstract": index}).encode()
    build(tmp_path, table("\t"), record + b"\n" + papers())
    assert Corpus.open(tmp_path / "out").papers("abstract").row(0) == ("a b",)


def test_an_abstract_that_begins_like_an_index_stays_as_it_is(tmp_path: Path) -> None:
    record = json.dumps({"id": "a", "year": 1900, "abstract": '{"quoted" words}'}).encode()
    build(tmp_path, table("\t"), record + b"\n" + papers())
    assert Corpus.open(tmp_path / "out").papers("abstract").row(0) == ('{"quoted" words}',)


def test_brackets_of_two_kinds_that_close_each_other_end_the_build(tmp_path: Path) -> None:
    works = json.dumps([json.loads(line(work(n))) for n in range(1, 60)], indent=1)
    places = [at for at, letter in enumerate(works) if letter == "]"]
    opened = [at for at, letter in enumerate(works) if letter == "["]
    close, reopen = places[10], next(at for at in opened if at > places[400])
    broken = works[:close] + works[close + 1 : reopen] + works[reopen + 1 :]
    (tmp_path / "works.json").write_text(broken)
    source = PagesSource((tmp_path / "works.json",), OpenAlexChoices())
    with pytest.raises(DataError, match="a bracket closes that is not the one that is open"):
        build_corpus(source, tmp_path / "out", force=True)


def works_with(references: object, folder: Path, *, graph_only: bool = False, skip_bad: bool = False) -> CorpusCard:
    """Build of works whose references are as given, `{}` being a number."""
    texts = [json.dumps({**json.loads(line(work(n))), "referenced_works": references}) for n in range(1, 60)]
    (folder / "w.jsonl").write_text("".join(text.replace("{}", str(n)) + "\n" for n, text in enumerate(texts, 1)))
    choices = OpenAlexChoices(graph_only=graph_only, skip_bad=skip_bad)
    return build_corpus(PagesSource((folder / "w.jsonl",), choices), folder / "out", force=True)


@pytest.mark.parametrize("graph_only", [False, True])
@pytest.mark.parametrize(
    "references", [["https://doi.org/10.1/{}"], ["W2.74E+09"], ["https://openalex.org/A{}"], "(W1,W2)"]
)
def test_references_that_name_no_work_are_counted_and_end_the_build(
    references: object, graph_only: bool, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="references cannot be read"):
        works_with(references, tmp_path, graph_only=graph_only)
    card = works_with(references, tmp_path, graph_only=graph_only, skip_bad=True)
    assert (card.edges, card.dropped["dangling_edges"]) == (0, 0)
    assert card.dropped["bad_references"] >= 59


@pytest.mark.parametrize("graph_only", [False, True])
def test_works_may_be_without_references(graph_only: bool, tmp_path: Path) -> None:
    assert works_with([], tmp_path, graph_only=graph_only).papers == 59
    assert works_with(["w{}/"], tmp_path, graph_only=graph_only).dropped["self_loops"] == 59


def test_lines_of_a_table_that_is_read_twice_are_set_aside_once(tmp_path: Path) -> None:
    rows = "".join(f"{n},{1990 + n % 20},T {n}\n" for n in range(600))
    (tmp_path / "SciSciNet_Papers.csv").write_text(f"PaperID,Year,Title\n{rows}bad,line\n1e+05,1999,T\n")
    edges = "".join(f"{n},{n // 2}\n" for n in range(1, 600))
    (tmp_path / "SciSciNet_PaperReferences.csv").write_text(f"Citing_PaperID,Cited_PaperID\n{edges}")
    card = build_corpus(SciSciNetSource(tmp_path), tmp_path / "out")
    assert (card.papers, card.quarantined, card.dropped["bad_values"]) == (600, 2, 0)


@pytest.mark.parametrize(("flag", "taken"), [("no", 40), ("Yes", 0), (1.0, 0), (None, 40)])
def test_a_flag_is_read_in_every_type(flag: object, taken: int, tmp_path: Path) -> None:
    frame = {"paperid": range(80), "year": [2000] * 80, "is_retracted": [*[flag] * 40, *["false"] * 40]}
    pl.DataFrame(frame, strict=False).write_parquet(tmp_path / "papers.parquet")
    edges = {"citing_paperid": range(41, 80), "cited_paperid": [40] * 39}
    pl.DataFrame(edges).write_parquet(tmp_path / "paperrefs.parquet")
    if flag == 1.0:
        pl.DataFrame({**frame, "is_retracted": [1.0] * 40 + [0.0] * 40}).write_parquet(tmp_path / "papers.parquet")
    card = build_corpus(SciSciNetSource(tmp_path), tmp_path / "out")
    assert (card.papers, card.dropped["retracted"]) == (40 + taken, 40 - taken)


def test_flags_that_are_none_are_counted_and_end_the_build(tmp_path: Path) -> None:
    frame = {"paperid": range(80), "year": [2000] * 80, "is_retracted": ["perhaps"] * 80}
    pl.DataFrame(frame).write_parquet(tmp_path / "papers.parquet")
    pl.DataFrame({"citing_paperid": [1], "cited_paperid": [0]}).write_parquet(tmp_path / "paperrefs.parquet")
    with pytest.raises(DataError, match="cannot be read"):
        build_corpus(SciSciNetSource(tmp_path), tmp_path / "out")


@pytest.mark.parametrize("name", TABLES)
def test_no_mutation_is_a_traceback_or_a_silent_loss(name: str, tmp_path: Path) -> None:
    found = {seed: verdict(TABLES[name], seed, tmp_path) for seed in range(60 if name.endswith(".gz") else 30)}
    assert {seed: words for seed, words in found.items() if words not in ("read", "refused")} == {}
    assert "read" in found.values()
    assert "refused" in found.values()
