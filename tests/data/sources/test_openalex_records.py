"""Records of OpenAlex, in all of their layouts."""

import bz2
import datetime as dt
import gzip
import json
import lzma
from pathlib import Path

import polars as pl
import pytest
import zstandard
from building import SHARED, edges_of, files_of, gzip_lines, quarantined
from openalex_works import URL, Work, line, rows_of_2023, work

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import CorpusCard
from tinsmith.data.sources.openalex.record import Keep
from tinsmith.data.sources.openalex.snapshot import find_snapshot
from tinsmith.data.sources.openalex.source import OpenAlexChoices, PagesSource, SnapshotSource
from tinsmith.data.sources.source import Source, build_corpus
from tinsmith.types.errors import DataError

PART = "data/jsonl/works/updated_date=2026-03-01/part_0000.jsonl.gz"


def read(folder: Path, lines: list[object], *, strict: bool = False, **choices: object) -> CorpusCard:
    gzip_lines(folder / "snapshot" / PART, lines)
    source = SnapshotSource(folder / "snapshot", OpenAlexChoices(**choices))  # type: ignore[arg-type]
    return build_corpus(source, folder / "out", strict=strict, force=True)


def papers(folder: Path, *columns: str) -> list[tuple[object, ...]]:
    return Corpus.open(folder / "out").papers(*columns).rows()


def test_a_work_becomes_a_paper(tmp_path: Path) -> None:
    read(tmp_path, [work(3)])
    row = Corpus.open(tmp_path / "out").papers().row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None} == {
        "id": "W3",
        "title": "Title 3",
        "abstract": "We study number study n3",
        "year": 2003,
        "date": dt.date(2003, 4, 11),
        "venue": "Journal 0",
        "field": "Decision Sciences",
        "concepts": ["Topic one", "Keyword", "Physics", "Chemistry"],
        "type": "article",
        "language": "en",
        "cited_by_count": 6,
    }


def test_a_part_with_every_kind_of_line(tmp_path: Path) -> None:
    # Reference check 14.
    lines: list[object] = [
        work(1, updated_date="2026-01-01", display_name="stale"),
        work(2, title=None, display_name=None),
        work(3, abstract_inverted_index=None),
        line(work(4))[:200],
        b"",
        b"\xef\xbb\xbf" + line(work(5)) + b"\r",
        work(1, updated_date="2026-02-01", display_name="fresh"),
    ]
    card = read(tmp_path, lines)
    assert (card.papers, card.quarantined, card.dropped["duplicate_papers"]) == (4, 1, 1)
    (entry,) = quarantined(tmp_path / "out")
    assert (entry["file"], entry["line"]) == (PART, 4)
    assert entry["text"] == line(work(4))[:200].decode()
    assert sorted(papers(tmp_path, "id", "title")) == [
        ("W1", "fresh"), ("W2", None), ("W3", "Title 3"), ("W5", "Title 5"),
    ]  # fmt: skip
    assert card.missing["abstract"] == 1
    with pytest.raises(DataError, match=r"part_0000\.jsonl\.gz:4: "):
        read(tmp_path, lines, strict=True)


@pytest.mark.parametrize("positions", [[-1], [1.5], [10**9], ["0"], [None], [2**70], {"x": 1}])
def test_an_impossible_abstract_costs_the_abstract_and_is_told(tmp_path: Path, positions: object) -> None:
    lines: list[object] = [work(1), work(2, abstract_inverted_index={"a": [0], "b": positions})]
    card = read(tmp_path, lines)
    assert papers(tmp_path, "id", "abstract") == [("W1", "We study number study n1"), ("W2", None)]
    assert (card.dropped["bad_abstracts"], card.quarantined) == (1, 1)
    entry = quarantined(tmp_path / "out")[0]
    assert entry["line"] == 2
    assert str(entry["reason"]).startswith("no abstract: ")
    assert edges_of(Corpus.open(tmp_path / "out")) == [("W2", "W1")]
    with pytest.raises(DataError, match=r":2: no abstract"):
        read(tmp_path, lines, strict=True)


def test_odd_words_and_gaps_in_an_abstract_survive(tmp_path: Path) -> None:
    index = {"$x.y": [0], ".": [2], "a": [7], "ünï": [3]}
    read(tmp_path, [work(1, abstract_inverted_index=index)])
    assert papers(tmp_path, "abstract") == [("$x.y . ünï a",)]


@pytest.mark.parametrize(
    ("changes", "column", "value"),
    [
        ({"display_name": ...}, "title", "Title 1"),
        ({"display_name": ..., "title": ...}, "title", None),
        ({"primary_location": None, "host_venue": {"display_name": "Old"}}, "venue", "Old"),
        ({"primary_location": {"source": None}}, "venue", None),
        ({"primary_topic": None}, "field", "Chemistry"),
        ({"primary_topic": ..., "concepts": ...}, "field", None),
        ({"publication_year": ...}, "year", 2001),
        ({"publication_date": None}, "date", None),
        ({"publication_date": "2001-02-30"}, "date", None),
        ({"publication_date": "20010203"}, "date", dt.date(2001, 2, 3)),
        ({"topics": ..., "keywords": None, "concepts": ...}, "concepts", []),
        ({"keywords": [{"keyword": "Old", "score": 1}], "topics": [], "concepts": []}, "concepts", ["Old"]),
        # What converters do: scalars for lists, text for numbers, lists for objects.
        ({"publication_year": "2001"}, "year", 2001),
        ({"publication_year": 2001.0}, "year", 2001),
        ({"cited_by_count": -1}, "cited_by_count", None),
        ({"cited_by_count": 10**30}, "cited_by_count", None),
        ({"topics": {"display_name": "Only"}, "keywords": [], "concepts": []}, "concepts", ["Only"]),
        ({"keywords": ["bare"], "topics": [], "concepts": []}, "concepts", ["bare"]),
        ({"abstract_inverted_index": {"a": 0, "b": 1}}, "abstract", "a b"),
        ({"abstract_inverted_index": []}, "abstract", None),
        ({"primary_location": []}, "venue", None),
        ({"is_retracted": "false"}, "id", "W1"),
    ],
)  # fmt: skip
def test_keys_may_be_absent_and_shapes_odd(
    tmp_path: Path, changes: dict[str, object], column: str, value: object
) -> None:
    card = read(tmp_path, [work(1, **changes)])
    assert card.quarantined == 0
    assert papers(tmp_path, column) == [(value,)]


def test_references_may_be_absent_or_a_scalar(tmp_path: Path) -> None:
    lines: list[object] = [
        work(1, referenced_works=...),
        work(2, referenced_works=f"{URL}W1"),
        work(3, referenced_works=["http://other.org/x/W1", "W2", None]),
        work(4, referenced_works=None),
    ]
    read(tmp_path, lines)
    assert sorted(edges_of(Corpus.open(tmp_path / "out"))) == [("W2", "W1"), ("W3", "W1"), ("W3", "W2")]


@pytest.mark.parametrize("record", [[1], "text", 3, None, {"id": f"{URL}A5"}, {"id": "S1"}])
def test_what_is_no_work_is_set_aside(tmp_path: Path, record: object) -> None:
    for graph_only in (False, True):
        card = read(tmp_path, [work(1), record], graph_only=graph_only)
        assert (card.papers, card.quarantined) == (1, 1)
        assert quarantined(tmp_path / "out")[0]["line"] == 2


def test_works_without_id_or_year_are_dropped_and_counted(tmp_path: Path) -> None:
    lines: list[object] = [
        work(1),
        work(2, id=None),
        work(3, publication_year=None, publication_date=None),
        work(4, publication_year=99999),
    ]
    for graph_only in (False, True):
        card = read(tmp_path, lines, graph_only=graph_only)
        assert (card.papers, card.dropped["no_id"], card.dropped["no_year"]) == (1, 1, 2)


def test_retracted_paratext_and_xpac_are_left_out_unless_kept(tmp_path: Path) -> None:
    lines: list[object] = [
        work(1),
        work(2, is_retracted=True),
        work(3, is_paratext=True),
        work(4, is_xpac=True),
        # The newest copy is retracted: the older one must not come back.
        work(5, updated_date="2025-01-01"),
        work(5, updated_date="2026-01-01", is_retracted=True),
    ]
    for graph_only in (False, True):
        card = read(tmp_path, lines, graph_only=graph_only)
        assert papers(tmp_path, "id") == [("W1",)]
        found = {name: card.dropped[name] for name in Keep}
        assert found == {"retracted": 2, "paratext": 1, "xpac": 1}
        card = read(tmp_path, lines, graph_only=graph_only, keep=frozenset({Keep.RETRACTED, Keep.XPAC}))
        assert sorted(papers(tmp_path, "id")) == [("W1",), ("W2",), ("W4",), ("W5",)]
        assert card.dropped["retracted"] == card.dropped["xpac"] == 0


def test_graph_only_is_the_same_graph_without_texts(tmp_path: Path) -> None:
    lines: list[object] = [work(n) for n in range(1, 40)]
    lines[7:7] = [work(8, updated_date=None, referenced_works=[f"{URL}W20", f"{URL}W3/"])]
    fast = read(tmp_path, lines, graph_only=True)
    columns = ("id", "year", "date", "venue")
    rows, edges = papers(tmp_path, *columns), edges_of(Corpus.open(tmp_path / "out"))
    assert fast.missing["abstract"] == fast.missing["title"] == fast.papers == 39
    tables = files_of(tmp_path / "out")
    # One odd line makes its block go the careful way.
    odd = read(tmp_path, [*lines, b"{"], graph_only=True)
    assert odd.fingerprint == fast.fingerprint
    assert files_of(tmp_path / "out")["papers.parquet"] == tables["papers.parquet"]
    whole = read(tmp_path, lines)
    assert papers(tmp_path, *columns) == rows
    assert edges_of(Corpus.open(tmp_path / "out")) == edges
    assert whole.missing["abstract"] == 0


def test_the_schema_of_2023_gives_the_same_paper_but_for_its_topics(tmp_path: Path) -> None:
    read(tmp_path, [work(1)])
    new = Corpus.open(tmp_path / "out").papers().row(0, named=True)
    read(tmp_path, [rows_of_2023(work(1))])
    old = Corpus.open(tmp_path / "out").papers().row(0, named=True)
    assert old == new | {"field": "Chemistry", "concepts": ["Keyword", "Physics", "Chemistry", "Topic one"]}


def test_real_works_of_two_schemas(tmp_path: Path) -> None:
    folder = SHARED / "openalex"
    if not folder.exists():
        pytest.skip("shared/data/openalex is not here")
    for name, concepts, references in (("W2741809807.json", True, 45), ("W2741809807_schema2023.json", False, 2)):
        out = tmp_path / name
        card = build_corpus(PagesSource((folder / name,), OpenAlexChoices()), out)
        row = Corpus.open(out).papers().row(0, named=True)
        assert (row["id"], row["year"], row["date"]) == ("W2741809807", 2018, dt.date(2018, 2, 13))
        assert row["title"].startswith("The state of OA: a large-scale analysis")
        assert row["abstract"].startswith("Despite growing interest in")
        assert row["venue"] == "PeerJ"
        assert (row["field"] == "Decision Sciences") is concepts
        assert card.dropped["dangling_edges"] == references
    both = PagesSource(tuple(folder.glob("W*.json")), OpenAlexChoices())
    card = build_corpus(both, tmp_path / "all")
    assert (card.papers, card.quarantined, card.dropped["duplicate_papers"]) == (2, 0, 1)
    newest = Corpus.open(tmp_path / "all").papers("id", "cited_by_count").filter(pl.col("id") == "W2741809807")
    assert newest["cited_by_count"].to_list() == [962]
    assert json.loads((tmp_path / "all" / "card.json").read_text())["source"]["kind"] == "openalex"


WORKS = [work(number) for number in range(1, 31)] + [work(5, updated_date="2024-01-01", title="stale")]
CHOICES = OpenAlexChoices()


def jsonl(root: Path, place: str, ending: str) -> Path:
    for part, some in enumerate((WORKS[:12], WORKS[12:])):
        gzip_lines(root / place / f"updated_date=2026-03-0{part + 1}" / f"part_{part:04}{ending}", some)
    return root


def parquet(root: Path, *, as_map: bool) -> Path:
    """Parquet parts: the abstract's index as JSON text, or as a map, which is a list of key and value."""
    rows: list[Work] = []
    for record in WORKS:
        index = record["abstract_inverted_index"]
        assert isinstance(index, dict)
        stored: object = json.dumps(index)
        if as_map:
            stored = [{"key": word, "value": at} for word, at in index.items()]
        rows.append(record | {"abstract_inverted_index": stored})
    for part, some in enumerate((rows[:12], rows[12:])):
        folder = root / "data/parquet/works" / f"updated_date=2026-03-0{part + 1}"
        folder.mkdir(parents=True)
        frame = pl.DataFrame(some, infer_schema_length=None)
        dates = (pl.col("publication_date").str.to_date(), pl.col("updated_date").str.to_datetime(strict=False))
        frame = frame.with_columns(dates[0]) if as_map else frame
        frame.write_parquet(folder / f"part_{part:04}.parquet")
    return root


def tables(source: Source, out: Path) -> tuple[CorpusCard, dict[str, bytes]]:
    card = build_corpus(source, out)
    return card, {name: content for name, content in files_of(out).items() if name != "card.json"}


@pytest.mark.parametrize("graph_only", [False, True])
def test_layouts_pages_lists_and_parquet_give_identical_rows(tmp_path: Path, graph_only: bool) -> None:
    choices = OpenAlexChoices(graph_only=graph_only)
    page = tmp_path / "page.json"
    page.write_bytes(line({"meta": {"count": 31, "next_cursor": None}, "results": WORKS, "group_by": []}))
    listed = tmp_path / "list.json.gz"
    listed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + line(WORKS)))
    singles = [tmp_path / f"single{number}.json" for number in range(len(WORKS))]
    for path, record in zip(singles, WORKS, strict=True):
        path.write_text(json.dumps(record, indent=1))
    legacy = jsonl(tmp_path / "legacy", "legacy-data/works", ".gz")
    gzip_lines(legacy / "legacy-data/merged_ids/works/2024-01-01.csv.gz", [b"merge_date,id,merge_into_id"])
    (legacy / "legacy-data/works/manifest").write_text("{}")
    given: dict[str, Source] = {
        "new": SnapshotSource(jsonl(tmp_path / "new", "data/jsonl/works", ".gz"), choices),
        "named": SnapshotSource(jsonl(tmp_path / "named", "data/jsonl/works", ".jsonl.gz"), choices),
        "old": SnapshotSource(jsonl(tmp_path / "old", "data/works", ".gz"), choices),
        "legacy": SnapshotSource(legacy, choices),
        "inside": SnapshotSource(tmp_path / "new" / "data/jsonl/works", choices),
        "text": SnapshotSource(parquet(tmp_path / "text", as_map=False), choices),
        "map": SnapshotSource(parquet(tmp_path / "map", as_map=True), choices),
        "page": PagesSource((page,), choices),
        "list": PagesSource((listed,), choices),
        "singles": PagesSource(tuple(singles), choices),
        "lines": PagesSource(tuple((tmp_path / "named").rglob("*.gz")), choices),
    }
    found = {name: tables(source, tmp_path / f"{name}-out") for name, source in given.items()}
    card, files = found["new"]
    assert (card.papers, card.dropped["duplicate_papers"], card.quarantined) == (30, 1, 0)
    assert card.edges == 57
    for name, (other, others) in found.items():
        assert others == files, name
        assert other.fingerprint == card.fingerprint
        assert other.dropped == card.dropped


def test_the_first_layout_that_is_there_is_read(tmp_path: Path) -> None:
    jsonl(tmp_path, "data/works", ".gz")
    assert find_snapshot(tmp_path).layout == "legacy"
    parquet(tmp_path, as_map=False)
    assert find_snapshot(tmp_path).layout == "parquet"
    jsonl(tmp_path, "data/jsonl/works", ".gz")
    found = find_snapshot(tmp_path)
    assert found.layout == "jsonl"
    assert [part.name for part in found.parts] == [
        "data/jsonl/works/updated_date=2026-03-01/part_0000.gz",
        "data/jsonl/works/updated_date=2026-03-02/part_0001.gz",
    ]
    assert [part.partition for part in found.parts] == ["2026-03-01", "2026-03-02"]
    with pytest.raises(DataError, match="field: snapshot"):
        find_snapshot(tmp_path / "data/jsonl/works/updated_date=2026-03-01")


def test_parts_may_be_packed_in_any_way_and_a_file_that_is_no_part_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "data/jsonl/works/updated_date=2026-03-01"
    folder.mkdir(parents=True)
    packings = {".gz": gzip.compress, ".zst": zstandard.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    for number, (ending, pack) in enumerate(packings.items(), 1):
        (folder / f"part_{number:04}.jsonl{ending}").write_bytes(pack(line(work(number))))
    (folder / "part_0005.json").write_bytes(line(work(5)))
    for name in ("manifest", ".part_0000.gz.crc", "_SUCCESS"):
        (folder / name).write_text("of a tool")
    assert build_corpus(SnapshotSource(tmp_path, CHOICES), tmp_path / "out").papers == 5
    (folder / "part_0006.jsonl.lz4").write_bytes(b"\x04\x22\x4d\x18")
    with pytest.raises(DataError, match="no part of the works") as caught:
        build_corpus(SnapshotSource(tmp_path, CHOICES), tmp_path / "again")
    assert caught.value.value == "data/jsonl/works/updated_date=2026-03-01/part_0006.jsonl.lz4"


def test_the_partition_dates_a_record_that_does_not_say_when_it_changed(tmp_path: Path) -> None:
    works = tmp_path / "data/jsonl/works"
    for day, title in (("2026-03-01", "old"), ("2026-03-09", "new"), ("2025-12-31", "older")):
        record = work(1, updated_date=..., display_name=title)
        gzip_lines(works / f"updated_date={day}" / "part_0000.gz", [record])
    build_corpus(SnapshotSource(tmp_path, CHOICES), tmp_path / "out")
    assert pl.read_parquet(tmp_path / "out" / "papers.parquet")["title"].to_list() == ["new"]


def test_a_truncated_part_is_an_error_or_read_up_to_the_damage(tmp_path: Path) -> None:
    works = [work(number) for number in range(1, 3000)]
    path = gzip_lines(tmp_path / "data/jsonl/works/updated_date=2026-03-01/part_0000.gz", works)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    for graph_only in (False, True):
        choices = OpenAlexChoices(graph_only=graph_only)
        with pytest.raises(DataError, match=r"(?m)part_0000\.gz: .* \d+\)$") as caught:
            build_corpus(SnapshotSource(tmp_path, choices), tmp_path / "out")
        assert "--skip-bad" in str(caught.value)
        skipping = OpenAlexChoices(graph_only=graph_only, skip_bad=True)
        card = build_corpus(SnapshotSource(tmp_path, skipping), tmp_path / "out", force=True)
        assert 1000 < card.papers < 2999
        assert (card.dropped["bad_files"], card.quarantined) == (1, 1)
        (entry,) = quarantined(tmp_path / "out")
        assert entry["file"] == "data/jsonl/works/updated_date=2026-03-01/part_0000.gz"
        assert entry["line"] == card.papers + 1
        (tmp_path / "out" / "card.json").unlink()
        for file in (tmp_path / "out").iterdir():
            file.unlink()


def test_a_damaged_parquet_part_is_an_error_that_names_it(tmp_path: Path) -> None:
    parquet(tmp_path, as_map=False)
    path = tmp_path / "data/parquet/works/updated_date=2026-03-02/part_0001.parquet"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"updated_date=2026-03-02/part_0001\.parquet: "):
        build_corpus(SnapshotSource(tmp_path, CHOICES), tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"results": [{"id": "W1"', "truncated"),
        (b'{"error": "Invalid filter", "message": "no"}', "neither a page of works nor a work"),
        (b"<html>", "malformed"),
    ],
)
def test_a_page_that_is_none_is_set_aside(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "good.json").write_bytes(line(work(1)))
    (tmp_path / "bad.json").write_bytes(content)
    files = (tmp_path / "bad.json", tmp_path / "a" / "good.json")
    card = build_corpus(PagesSource(files, CHOICES), tmp_path / "out")
    assert (card.papers, card.quarantined) == (1, 1)
    (entry,) = quarantined(tmp_path / "out")
    assert (entry["file"], entry["line"], entry["text"]) == ("bad.json", 1, content.decode())
    assert reason in str(entry["reason"])


def test_one_bad_record_of_a_page_does_not_cost_the_others(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(line({"results": [work(1), {"id": "A1"}, work(2)], "meta": {}}))
    card = build_corpus(PagesSource((tmp_path / "p.json",), CHOICES), tmp_path / "out")
    assert (card.papers, card.quarantined) == (2, 1)
    assert quarantined(tmp_path / "out")[0]["line"] == 2
