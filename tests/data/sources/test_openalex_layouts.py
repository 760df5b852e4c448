import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from building import files_of, gzip_lines, quarantined
from openalex_works import Work, line, work

from tinsmith.data.corpus_card import CorpusCard
from tinsmith.data.sources.openalex.snapshot import find_snapshot
from tinsmith.data.sources.openalex.source import OpenAlexChoices, PagesSource, SnapshotSource
from tinsmith.data.sources.source import Source, build_corpus
from tinsmith.types.errors import DataError

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
