import datetime as dt
import gzip
import json
import re
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from building import SHARED, edges_of, files_of, gzip_lines, quarantined
from fake_openalex import KEY, FakeOpenAlex, Mishap, serving
from openalex_works import work

from command_line import Run, command
from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import CorpusCard
from tinsmith.data.sources.files import FilesSource
from tinsmith.data.sources.journal import journal_name
from tinsmith.data.sources.source import build_corpus
from tinsmith.types.errors import DataError

STAGES = "reading papers\nreading edges\nordering papers\nwriting edges\nwriting papers\n"


def build(
    folder: Path, papers: list[object], edges: bytes, *, strict: bool = False, skip_bad: bool = False
) -> CorpusCard:
    gzip_lines(folder / "p.jsonl.gz", papers)
    (folder / "e.tsv").write_bytes(edges)
    source = FilesSource(folder / "p.jsonl.gz", folder / "e.tsv", skip_bad)
    return build_corpus(source, folder / "out", strict=strict, force=True)


def test_papers_and_edges_are_read_as_they_are_given(tmp_path: Path) -> None:
    full = {
        "id": "0001001", "title": "T", "abstract": "A", "date": "2000-01-31", "venue": "V",
        "journal_ref": "Phys.Rev. D7 (2000) 1", "field": "F", "concepts": ["c"],
        "cited_by_count": 3, "type": "article", "language": "en", "unknown": {"x": 1},
    }  # fmt: skip
    papers = [
        full,
        {"id": "9201001", "date": "1992-01", "journal_ref": "Phys. Rev. D 45 (1992) 1", "title": ""},
        {"id": "b", "date": "1993", "concepts": None},
        {"id": "c", "year": 1994},
        {"id": 77, "year": 1994, "date": "1994-02-03"},
    ]
    card = build(tmp_path, papers, b"citing\tcited\r\n# c\n0001001\t9201001\n0001001\tb\nc\t77\n")
    assert card.quarantined == 0
    corpus = Corpus.open(tmp_path / "out")
    assert corpus.papers("id", "year", "date", "venue").rows() == [
        ("9201001", 1992, dt.date(1992, 1, 1), "Phys.Rev. D"),
        ("b", 1993, None, None),
        ("c", 1994, None, None),
        ("77", 1994, dt.date(1994, 2, 3), None),
        ("0001001", 2000, dt.date(2000, 1, 31), "V"),
    ]
    last = corpus.papers().row(4, named=True)
    assert [last[name] for name in ("title", "abstract", "field", "type", "language")] == [
        "T", "A", "F", "article", "en",
    ]  # fmt: skip
    assert (last["concepts"], last["cited_by_count"]) == (["c"], 3)
    assert corpus.papers("title")["title"].null_count() == 4
    assert edges_of(corpus) == [("c", "77"), ("0001001", "9201001"), ("0001001", "b")]


def test_white_space_is_no_text_and_no_journal(tmp_path: Path) -> None:
    blank = {key: " \t" for key in ("title", "abstract", "venue", "field", "type", "language")}
    papers = [{"id": "a", "year": 2000, **blank, "journal_ref": "Phys.Rev. D7 (2000) 1", "concepts": ["c", "", " "]}]
    card = build(tmp_path, [*papers, {"id": "b", "year": 2001}], b"citing\tcited\nb\ta\n")
    (paper,) = Corpus.open(tmp_path / "out").papers().filter(pl.col("id") == "a").rows(named=True)
    assert paper["venue"] == "Phys.Rev. D"
    assert [paper[key] for key in ("title", "abstract", "field", "type", "language")] == [None] * 5
    assert paper["concepts"] == ["c"]
    assert card.missing["title"] == 2


def test_malformed_lines_are_set_aside_with_file_and_line(tmp_path: Path) -> None:
    papers: list[object] = [
        {"id": "a", "year": 2000},
        b'{"id": "b", "year": 20',
        b"",
        {"year": 2000},
        {"id": "c", "date": "2000-13-01"},
        {"id": "d", "date": "yesterday"},
        {"id": "e", "year": 12345},
        {"id": "f", "year": 2000, "cited_by_count": 10**30},
        {"id": "g"},
        b"\xff\xfe",
    ]
    edges = b"a\ta\nonly\na\t\nx\ty\tz\n"
    card = build(tmp_path, papers, edges, skip_bad=True)
    found = quarantined(tmp_path / "out")
    assert [(entry["file"], entry["line"]) for entry in found] == [
        *(("p.jsonl.gz", line) for line in (2, 4, 5, 6, 7, 10)),
        *(("e.tsv", line) for line in (2, 3, 4)),
    ]
    assert found[0]["text"] == '{"id": "b", "year": 20'
    assert card.quarantined == 9
    # A count that cannot be read costs itself, not the paper.
    assert (card.papers, card.dropped["bad_values"], card.dropped["no_year"], card.dropped["self_loops"]) == (
        2,
        1,
        1,
        1,
    )
    with pytest.raises(DataError, match="7 of 9 lines are lost: 2 not a date"):
        build(tmp_path, papers, edges)
    with pytest.raises(DataError, match=r"p\.jsonl\.gz:2: "):
        build(tmp_path, papers, edges, strict=True)
    assert str(tmp_path) not in (tmp_path / "out" / "quarantine.jsonl").read_text()


def test_a_damaged_file_is_an_error_or_cut(tmp_path: Path) -> None:
    papers = gzip.compress(b"".join(b'{"id": "%d", "year": 2000}\n' % i for i in range(5000)))
    (tmp_path / "p.gz").write_bytes(papers[: len(papers) // 2])
    (tmp_path / "e.tsv").write_bytes(b"1\t0\n")
    paths = (tmp_path / "p.gz", tmp_path / "e.tsv")
    with pytest.raises(DataError, match=r"(?m)^p\.gz: .* \d+\)$"):
        build_corpus(FilesSource(*paths), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    card = build_corpus(FilesSource(*paths, skip_bad=True), tmp_path / "out")
    assert 0 < card.papers < 5000
    assert (card.edges, card.dropped["bad_files"], card.quarantined) == (1, 1, 1)
    assert quarantined(tmp_path / "out")[0]["line"] == card.papers + 1


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("Int.J.Mod.Phys. A7 (1992) 5661-5705", "Int.J.Mod.Phys. A"),
        ("Int. J. Mod. Phys. A 7, 5661 (1992)", "Int.J.Mod.Phys. A"),
        ("Int. Jour. Mod. Phys. A, Vol. 9 No. 19 (1994)", "Int.J.Mod.Phys. A"),
        ("Phys.Lett. B295 (1992) 219-224; Erratum-ibid. B407 (1997) 449-450", "Phys.Lett. B"),
        ("Phys. Rev. D, 55 (1997) 3830", "Phys.Rev. D"),
        ("Phys.Rev.D55:1", "Phys.Rev. D"),
        ("Physics Letters A, 267 (2000) 219-224", "Phys.Lett. A"),
        ("Physical Review Letters 68 (1992) 3718", "Phys.Rev.Lett."),
        ("JHEP 9808 (1998) 003", "JHEP"),
        ("J. Phys. A: Math. Gen. 36 (2003) 3363", "J.Phys. A"),
        ("J. Phys A: Math. Gen. 34 (2001)11053-11057", "J.Phys. A"),
        ("Class. Quantum Gravity 9 (1992) 1", "Class.Quant.Grav."),
        ("Letters in Mathematical Physics, 32 (1994) 211-219", "Lett.Math.Phys."),
        ("Nucl.Phys.Proc.Suppl. 33C (1993) 114-118", "Nucl.Phys.Proc.Suppl."),
        ("Nucl. Phys. Proc. Suppl. C33 (1993) 99", "Nucl.Phys.Proc.Suppl."),
        ("Nucl. Phys. B (Proc. Suppl.) 25A (1992) 1", "Nucl.Phys.Proc.Suppl."),
        ("Annals of Physics 201 (1990) 1", "Annals Phys."),
        ("Duke Math. J. 71 (1993) 1", "Duke Math.J."),
        ("Physica A 201 (1993) 1", "Physica A"),
        ("acta physica slovaca, vol.49 No.6, 945 (1999)", "Acta Physica Slovaca"),
        ("Proc. Roy. Soc. Lond. A 440 (1993) 1", "Proc.Roy.Soc.Lond. A"),
        ("Int. Math. Res. Notices (1995) 221-233", "Int.Math.Res.Notices"),
        ("in Lecture Notes in Physics 469 (1996) 321", None),
        ("Proc. of the eighth Marcel Grossmann Meeting on General Relativity, 1999", None),
        ('"Operator Algebras and Quantum Field Theory", pp. 647-660', None),
        ("1993 Particles and Fields, Soc. Bras. Fis., Brazil", None),
        ("World Scientific, May 2002", None),
        ("to be published", None),
        ("", None),
    ],
)
def test_a_journal_reference_is_reduced_to_the_journal(reference: str, name: str | None) -> None:
    assert journal_name(reference) == name


@pytest.mark.whole
def test_hepth_has_its_published_counts(tmp_path: Path) -> None:
    folder = SHARED / "hepth"
    if not folder.exists():
        pytest.skip("shared/data/hepth is not here")
    source = FilesSource(folder / "papers.jsonl.gz", folder / "edges.tsv.gz")
    card = build_corpus(source, tmp_path / "out")
    assert (card.papers, card.edges, card.forward_edges) == (29_555, 352_768, 1_159)
    assert card.dropped["self_loops"] == 39
    assert {name for name, count in card.dropped.items() if count} == {"self_loops"}
    assert card.quarantined == 0
    assert (card.years[1991], card.years[1992], card.years[2003]) == (1, 1_366, 1_018)
    corpus = Corpus.open(tmp_path / "out")
    row = corpus.papers("id", "year", "date", "venue").row(0)
    assert row == ("9201001", 1991, dt.date(1991, 12, 31), "Int.J.Mod.Phys. A")
    venues = dict(corpus.papers("venue")["venue"].value_counts().iter_rows())
    assert venues["Phys.Lett. B"] > 3_800
    assert venues["Nucl.Phys. B"] > 3_800
    assert venues[None] == card.missing["venue"] < 8_700
    assert card.years == {int(y): n for y, n in json.loads(
        (tmp_path / "out" / "card.json").read_text())["years"].items()}  # fmt: skip
    build_corpus(source, tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(tmp_path / "out")


@pytest.fixture
def built(capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(command, capsys, "data", "build")


@pytest.fixture
def two_files(tmp_path: Path) -> tuple[object, ...]:
    papers = gzip_lines(tmp_path / "p.jsonl.gz", [{"id": f"{n}", "year": 2000 + n} for n in range(3)])
    (tmp_path / "e.tsv").write_text("1\t0\n2\t0\n2\t2\n")
    return ("--source", "files", "--papers", papers, "--edges", tmp_path / "e.tsv")


def test_a_build_tells_what_it_made(built: Run, tmp_path: Path, two_files: tuple[object, ...]) -> None:
    code, out, stages = built(*two_files, "--out", tmp_path / "c")
    assert (code, stages) == (0, STAGES)
    # A name, its figure, and of what was dropped an explanation.
    lines = dict(found[:2] for line in out.splitlines() if len(found := re.split(r" {2,}", line.strip())) > 1)
    assert (lines["papers"], lines["edges"], lines["dropped: self loops"]) == ("3", "2", "1")
    code, _, err = built(*two_files, "--out", tmp_path / "c")
    assert (code, len(err.splitlines())) == (2, 3)
    assert "--force" in err
    before = files_of(tmp_path / "c")
    code, _, _ = built(*two_files, "--out", tmp_path / "c", "--force")
    assert code == 0
    assert files_of(tmp_path / "c") == before


def test_forward_edges_are_dropped_if_asked(built: Run, tmp_path: Path, two_files: tuple[object, ...]) -> None:
    (tmp_path / "e.tsv").write_text("1\t0\n0\t2\n")
    assert "forward edges" in built(*two_files, "--out", tmp_path / "a")[1]
    out = built(*two_files, "--out", tmp_path / "b", "--drop-forward")[1]
    assert "dropped: forward edges" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "files", "--seed", "1"], "--seed belongs to --source synthetic, not to files"),
        (["--source", "files", "--keep", "xpac"], "--keep belongs to --source openalex or sciscinet"),
        (["--source", "files", "--graph-only"], "--graph-only belongs to --source openalex"),
        (["--source", "files", "--papers", "p"], "--source files needs --edges"),
        (["--source", "synthetic", "--preset", "tiny", "--strict"], "--strict belongs to --source"),
        (["--source", "synthetic"], "--source synthetic needs --preset"),
        (["--source", "sciscinet"], "--source sciscinet needs --tables"),
        (["--source", "sciscinet", "--tables", "t", "--keep", "xpac"], "retracted, paratext"),
        (["--source", "openalex"], "one of --snapshot, --pages, --api and --works"),
        (["--source", "openalex", "--api", "--snapshot", "d"], "one of --snapshot, --pages, --api and --works"),
        (["--source", "openalex", "--snapshot", "d", "--filter", "x"], "--filter belongs to --api"),
        (["--source", "openalex", "--api"], "--api needs --filter"),
        (["--source", "openalex", "--api", "--filter", "x", "--api-key-env", "NO_KEY"], "needs a key"),
        (["--source", "openalex", "--snapshot", "d", "--keep", "books"], "keep = 'books'"),
        (["--source", "openalex", "--snapshot", "d", "--strict", "--skip-bad"], "contradict each other"),
        (["--source", "openalex", "--snapshot", "nowhere"], "no OpenAlex works in nowhere"),
        (["--source", "files", "--papers", "nowhere", "--edges", "e"], "no such file\n  field: --papers = 'nowhere'"),
        (["--source", "files", "--papers", ".", "--edges", "e"], "this is a folder\n  field: --papers = '.'"),
        (["--source", "openalex", "--pages", "nowhere"], "no such file\n  field: --pages = 'nowhere'"),
        (["--source", "files", "extra"], "--pages belongs to --source openalex"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(
    built: Run, tmp_path: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENALEX_API_KEY", raising=False)
    code, out, err = built(*arguments, "--out", tmp_path / "c")
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("papers", "messages"),
    [
        (b"id,title,year\na,T,2001\n", ["is a table (CSV or TSV)", "--papers = 'id,title,year'", "polars.read_csv("]),
        ('{"id": "\xe9", "year": 2001}\n'.encode("latin-1"), ["1 not UTF-8", "text in UTF-8 or UTF-16", "do: convert"]),
        (b"", ["the source has none", "--source files = 'papers=p.jsonl", "do: correct the source"]),
        (b'{"id": "a"}\n', ["1 without a year\n  field: year\n", '"date": "2001-05-31" will do']),
    ],
)
def test_papers_in_another_form_are_named_with_what_to_do(
    built: Run, tmp_path: Path, papers: bytes, messages: list[str]
) -> None:
    (tmp_path / "p.jsonl").write_bytes(papers)
    (tmp_path / "e.tsv").write_text("1\t0\n")
    files = ("--papers", tmp_path / "p.jsonl", "--edges", tmp_path / "e.tsv")
    code, _, err = built("--source", "files", *files, "--out", tmp_path / "c")
    assert (code, [one for one in messages if one not in err]) == (2, []), err


def test_lines_set_aside_are_named(built: Run, tmp_path: Path, two_files: tuple[object, ...]) -> None:
    gzip_lines(tmp_path / "p.jsonl.gz", [{"id": f"{n}", "date": "2000" if n < 3 else "yesterday"} for n in range(4)])
    out = built(*two_files, "--out", tmp_path / "c")[1]
    assert f"set aside in {tmp_path / 'c'}/quarantine.jsonl, the first: p.jsonl.gz:4: not a date: yesterday" in out


def test_pages_take_many_files(built: Run, tmp_path: Path) -> None:
    paths = [gzip_lines(tmp_path / f"{n}.json", [work(n)]) for n in (1, 2, 3)]
    code, out, _ = built("--source", "openalex", "--out", tmp_path / "c", "--pages", *paths)
    assert code == 0
    assert out.split()[3] == "3"


def test_the_api_is_resumed_by_the_same_command(built: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENALEX_API_KEY", KEY)
    with serving(FakeOpenAlex([work(n) for n in range(1, 26)])) as fake:
        fake.script = [None, Mishap(429, {"Retry-After": "40000"})]
        command = ("--source", "openalex", "--api", "--filter", "type:article", "--api-url", fake.url)
        code, _, err = built(*command, "--out", tmp_path / "c")
        assert code == 2
        assert "budget" in err
        code, out, _ = built(*command, "--out", tmp_path / "c")
        assert code == 0
        assert out.split()[3] == "25"
        assert len(fake.asked) == 4
        assert KEY not in out + err


def test_a_synthetic_world_is_built_byte_for_byte_the_same(built: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        code, _, _ = built("--source", "synthetic", "--preset", "tiny", "--seed", 3, "--out", tmp_path / name)
        assert code == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
