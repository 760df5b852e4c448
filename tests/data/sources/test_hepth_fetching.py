"""The hep-th source: its records, and how they are fetched."""

import gzip
import json
import random
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
from tinsmith.data.download import download
from tinsmith.data.progress import Silent
from tinsmith.data.sources.files import FilesSource
from tinsmith.data.sources.hepth.fetching import Outcome, fetch_corpus
from tinsmith.data.sources.hepth.record import DateSource, Unreadable, parse_record
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
    before, requests = files_of(tmp_path / "c"), len(snap.asked)
    assert not fetched(snap.release(), tmp_path / "c").fresh
    (tmp_path / "c" / "papers.jsonl.gz").write_bytes(b"half a file")
    assert fetched(snap.release(), tmp_path / "c").fresh
    assert (files_of(tmp_path / "c"), len(snap.asked)) == (before, requests)


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


def test_a_record_is_read_field_by_field() -> None:
    text = record_text(
        "9201001",
        date="Date: Tue, 31 Dec 91 23:54:17 MET +0100   (46kb)\nDate (revised v2): Wed, 8 Jan 92 10:00 GMT",
        title="Title: Combinatorics of the\n  Modular Group",
        more="Comments: 46 pages, mail to me.too@x-y.edu. Or not:\n  never\nReport-no: SPhT 92\n"
        "Subj-class: Theory; Algebra\nJournal-ref: Int.J.Mod.Phys. A7 (1992) 5661\n",
        abstract="  We study\nNote this: $U(@)$.",
    )
    record = parse_record("9201001", text, in_graph=True)
    assert (record.title, record.authors) == ("Combinatorics of the Modular Group", "A. Person")
    assert record.abstract == "We study Note this: $U(@)$."
    assert record.comments == "46 pages, mail to [email]. Or not: never"
    assert (record.report_no, record.subj_class) == ("SPhT 92", "Theory; Algebra")
    assert record.journal_ref == "Int.J.Mod.Phys. A7 (1992) 5661"
    assert (record.date, record.n_versions, record.in_graph) == ("1991-12-31", 2, True)


def test_what_a_record_has_not_is_missing() -> None:
    record = parse_record("0001002", record_text("0001002"), in_graph=False)
    assert (record.journal_ref, record.comments, record.report_no, record.subj_class) == (None,) * 4
    assert not record.in_graph


@pytest.mark.parametrize(
    ("header", "day", "source"),
    [
        ("Mon, 3 Jan 2000 10:00:00 GMT   (10kb)", "2000-01-03", DateSource.HEADER),
        ("Mon, 3 Jan 2000 23:30:00 -0800", "2000-01-04", DateSource.HEADER),
        ("Mon, 3 Jan 2000 00:30:00 +0900", "2000-01-02", DateSource.HEADER),
        ("Mon, 3 Jan 2000 00:30:00 MET +0100", "2000-01-02", DateSource.HEADER),
        ("Mon, 3 Jan 2000 22:00 EST", "2000-01-04", DateSource.HEADER),
        ("Mon, 3 JAN 00 12:17 N   (6kb)", "2000-01-03", DateSource.HEADER),
        ("Mon, 31 Feb 2000 10:00:00 GMT", "2000-01-01", DateSource.MONTH),
        ("Mon, 3 Jan 1970 10:00:00 GMT", "2000-01-01", DateSource.MONTH),
        ("yesterday", "2000-01-01", DateSource.MONTH),
    ],
)
def test_a_date_is_the_first_header_in_utc(header: str, day: str, source: DateSource) -> None:
    text = record_text("0001001", date=f"Date: {header}")
    record = parse_record("0001001", text, in_graph=True)
    assert (record.date, record.date_source) == (day, source)


def test_a_title_that_swallowed_the_authors_leaves_them_missing() -> None:
    text = record_text("0001001", title="Title: STRINGS Author:\nA. Person").replace("Authors:", "by")
    record = parse_record("0001001", text, in_graph=True)
    assert (record.title, record.authors) == ("STRINGS Author: A. Person by A. Person", None)
    assert parse_record("0001001", record_text("1", abstract=""), in_graph=True).abstract is None


@pytest.mark.parametrize("text", ["", "a page about an error", "\\\\\nTitle: half a record\n"])
def test_half_a_record_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_record("0001001", text, in_graph=True)


CONTENT = random.Random(0).randbytes(300_000)


@pytest.fixture
def one_file() -> Generator[Snap, None, None]:
    with serving(Snap({"x.gz": CONTENT})) as here:
        yield here


@pytest.fixture
def seen() -> list[tuple[int, int | None]]:
    return []


def get(one_file: Snap, folder: Path, seen: list[tuple[int, int | None]] | None = None) -> bool:
    words = [] if seen is None else seen
    return download(f"{one_file.url}x.gz", folder / "x.gz", lambda a, b: words.append((a, b)))


def left(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_arrives_once(one_file: Snap, tmp_path: Path, seen: list[tuple[int, int | None]]) -> None:
    assert get(one_file, tmp_path, seen)
    assert left(tmp_path) == {"x.gz": CONTENT}
    assert (seen[0], seen[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
    assert not get(one_file, tmp_path)
    assert one_file.asked == [("x.gz", None)]


def test_a_cut_connection_goes_on_where_it_stopped(
    one_file: Snap, tmp_path: Path, seen: list[tuple[int, int | None]]
) -> None:
    one_file.cuts = [100_000, 50_000]
    assert get(one_file, tmp_path, seen)
    assert left(tmp_path) == {"x.gz": CONTENT}
    assert [wanted for _, wanted in one_file.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_stop_is_told_and_a_second_call_goes_on(one_file: Snap, tmp_path: Path) -> None:
    one_file.cuts = [100_000, 0]
    with pytest.raises(BackendError, match=r"0\.1 MB"):
        get(one_file, tmp_path)
    assert left(tmp_path) == {"x.gz.part": CONTENT[:100_000], "x.gz.part.tag": b'"one"'}
    assert get(one_file, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT}
    assert one_file.asked[-1] == ("x.gz", "bytes=100000-")


def test_a_file_that_changed_meanwhile_is_fetched_anew(one_file: Snap, tmp_path: Path) -> None:
    one_file.cuts = [100_000, 0]
    with pytest.raises(BackendError):
        get(one_file, tmp_path)
    one_file.tag, one_file.files["x.gz"] = '"two"', CONTENT[::-1]
    assert get(one_file, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT[::-1]}


def test_a_server_without_ranges_begins_again_and_is_given_up(one_file: Snap, tmp_path: Path) -> None:
    one_file.ranges, one_file.cuts = False, [100_000, 60_000]
    with pytest.raises(BackendError):
        get(one_file, tmp_path)
    assert len(one_file.asked) == 2
    assert get(one_file, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT}


@pytest.mark.parametrize("ranges", [True, False])
def test_a_part_that_is_whole_is_taken(one_file: Snap, tmp_path: Path, ranges: bool) -> None:
    one_file.ranges = ranges
    (tmp_path / "x.gz.part").write_bytes(CONTENT)
    assert get(one_file, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT}


def test_a_part_longer_than_the_file_is_dropped(one_file: Snap, tmp_path: Path) -> None:
    (tmp_path / "x.gz.part").write_bytes(CONTENT + b"more")
    assert get(one_file, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT}


@pytest.mark.parametrize("code", [403, 404, 503])
def test_a_refusal_is_told_with_its_code(one_file: Snap, tmp_path: Path, code: int) -> None:
    one_file.code = code
    with pytest.raises(BackendError, match=str(code)):
        get(one_file, tmp_path)
    assert left(tmp_path) == {}


def test_without_a_network_the_address_is_told(one_file: Snap, tmp_path: Path) -> None:
    gone = Snap({}, url="http://127.0.0.1:1/")  # no server may listen on port 1
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:1/x\.gz"):
        get(gone, tmp_path)
    assert left(tmp_path) == {}
    assert one_file.asked == []


def test_a_full_disk_is_told(one_file: Snap, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no disk that is always full")
    (tmp_path / "x.gz.part").symlink_to("/dev/full")
    with pytest.raises(BackendError, match="--out"):
        get(one_file, tmp_path)
    assert not (tmp_path / "x.gz").exists()
