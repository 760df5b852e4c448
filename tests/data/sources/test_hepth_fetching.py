import gzip
import json
from collections.abc import Generator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from building import SHARED, files_of
from small_snap import (
    ABSTRACTS,
    EDGE_LINES,
    EDGES,
    IDS,
    Snap,
    archive,
    digest,
    record_text,
    records,
    serving,
    small_files,
)

from tinsmith.data.corpus import Corpus
from tinsmith.data.progress import Silent
from tinsmith.data.sources.files import FilesSource
from tinsmith.data.sources.hepth.fetching import Outcome, fetch_corpus
from tinsmith.data.sources.hepth.release import HEPTH, Release
from tinsmith.data.sources.source import build_corpus
from tinsmith.types.errors import BackendError, DataError


@pytest.fixture
def snap() -> Generator[Snap, None, None]:
    with serving(Snap(small_files())) as here:
        yield here


def _ignored(done: int, total: int | None) -> None:
    assert total is None or done <= total


def fetched(release: Release, out: Path) -> Outcome:
    return fetch_corpus(release, out, lambda _: nullcontext(_ignored), lambda: nullcontext(Silent()))


def test_what_is_written_is_a_source_of_files(snap: Snap, tmp_path: Path) -> None:
    out = tmp_path / "c"
    outcome = fetched(snap.release(), out)
    assert (outcome.fresh, outcome.as_known) == (True, False)
    assert (outcome.receipt.papers, outcome.receipt.edges) == (4, 4)
    assert gzip.decompress((out / "edges.tsv.gz").read_bytes()).decode() == EDGE_LINES
    lines = gzip.decompress((out / "papers.jsonl.gz").read_bytes()).splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == list(IDS)
    assert [row["in_graph"] for row in rows] == [True, True, True, False]
    assert [row["date"] for row in rows] == ["1991-12-31", "1999-12-03", "2000-01-03", "2000-01-03"]
    card = build_corpus(FilesSource(out / "papers.jsonl.gz", out / "edges.tsv.gz"), tmp_path / "corpus")
    assert (card.papers, card.edges, card.quarantined) == (4, 3, 0)
    assert Corpus.open(tmp_path / "corpus").papers("id")["id"].to_list() == list(IDS)


def test_a_second_fetch_asks_for_nothing(snap: Snap, tmp_path: Path) -> None:
    fetched(snap.release(), tmp_path / "c")
    before, asked = files_of(tmp_path / "c"), len(snap.asked)
    assert not fetched(snap.release(), tmp_path / "c").fresh
    (tmp_path / "c" / "papers.jsonl.gz").write_bytes(b"half a file")
    assert fetched(snap.release(), tmp_path / "c").fresh
    assert (files_of(tmp_path / "c"), len(snap.asked)) == (before, asked)


def test_the_order_in_the_archive_changes_no_bit(snap: Snap, tmp_path: Path) -> None:
    fetched(snap.release(), tmp_path / "a")
    turned = dict(reversed(records().items()))
    snap.files[ABSTRACTS] = archive({f"./abs/{name}": text for name, text in turned.items()})
    fetched(snap.release(), tmp_path / "b")
    for name in ("papers.jsonl.gz", "edges.tsv.gz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_known_texts_are_known(snap: Snap, tmp_path: Path) -> None:
    first = fetched(snap.release(), tmp_path / "a").receipt
    known = replace(snap.release(), papers_sha256=first.papers_sha256)
    assert fetched(known, tmp_path / "b").as_known
    assert fetched(known, tmp_path / "b").as_known


def test_another_graph_is_refused(snap: Snap, tmp_path: Path) -> None:
    snap.files[EDGES] = gzip.compress(b"9912001\t9201001\n", mtime=0)
    with pytest.raises(DataError, match=digest(EDGE_LINES)):
        fetched(snap.release(), tmp_path / "c")
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["snap"]


def test_other_papers_are_refused(snap: Snap, tmp_path: Path) -> None:
    snap.files[ABSTRACTS] = archive({**records(), "2000/0001003.abs": record_text("0001003")})
    with pytest.raises(DataError, match=snap.release().ids_sha256):
        fetched(snap.release(), tmp_path / "c")
    assert not (tmp_path / "c" / "papers.jsonl.gz").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (EDGES, b"<html>moved</html>"),
        (EDGES, small_files()[EDGES][:-12]),
        (EDGES, gzip.compress(b"9912001\n", mtime=0)),
        (EDGES, gzip.compress(b"9912001\t99999999\n", mtime=0)),
        (ABSTRACTS, b"<html>moved</html>"),
        (ABSTRACTS, small_files()[ABSTRACTS][:-40]),
        (ABSTRACTS, archive({"2000/0001001.abs": "nothing"})),
    ],
)
def test_a_damaged_archive_is_named(snap: Snap, tmp_path: Path, name: str, content: bytes) -> None:
    snap.files[name] = content
    with pytest.raises(DataError, match=name):
        fetched(snap.release(), tmp_path / "c")


def test_the_folder_has_to_be_writable(snap: Snap, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match="--out"):
        fetched(snap.release(), tmp_path / "file" / "c")


@pytest.mark.whole
def test_the_shared_corpus_is_the_pinned_one() -> None:
    folder = SHARED / "hepth"
    if not folder.exists():
        pytest.skip("shared/data/hepth is not here")
    papers = gzip.decompress((folder / "papers.jsonl.gz").read_bytes()).decode()
    ids = [json.loads(line)["id"] for line in papers.splitlines()]
    edges = gzip.decompress((folder / "edges.tsv.gz").read_bytes()).decode()
    assert (len(ids), edges.count("\n")) == (HEPTH.paper_count, HEPTH.edge_count)
    assert digest("".join(f"{one}\n" for one in ids)) == HEPTH.ids_sha256
    assert (digest(edges), digest(papers)) == (HEPTH.edges_sha256, HEPTH.papers_sha256)
