import bz2
import datetime as dt
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from building import edges_of, files_of, quarantined

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import CorpusCard
from tinsmith.data.sources.sciscinet.source import SciSciNetSource
from tinsmith.data.sources.source import build_corpus
from tinsmith.types.errors import DataError

# Rows as both versions have them; None is NULL.
PAPERS = [
    # id, year, date, type, journal, citations, disruption, z median, z 10 %, pairs
    ("1", 2001, "2001-02-03", "Journal", "77", 5, 0.0125, 12.5, -3.25, 45),
    ("2", 1999, "1999-12-31", "Journal", "88", 0, None, None, None, 0),
    ("3", 2005, None, "Conference", None, 12, -0.5, 0.0, 0.0, 1),
    ("4", None, None, "Journal", "77", 1, 0.1, None, None, None),
    ("5", 2010, "2010-01-01", None, "99", None, 1.0, 1e-5, -100.0, 3),
]
NAMES = (
    "PaperID", "Year", "Date", "DocType", "JournalID", "Citation_Count", "Disruption", "Atyp_Median_Z",
    "Atyp_10pct_Z", "Atyp_Pairs",
)  # fmt: skip
DETAILS = [
    ("1", "First title", "Hello world Hello", "en"),
    ("2", "Second", None, "de"),
    ("9", "Of no paper", "x", "en"),
    ("5", "Fifth ünï", "a b", None),
]
REFERENCES = [("1", "2"), ("3", "1"), ("3", "2"), ("5", "3"), ("5", "5"), ("5", "123"), ("5", "3")]
FIELDS = [("f1", "Physics", 0), ("f2", "Art", 0), ("f3", "Optics", 1), ("f4", "Lasers", 2)]
PAPER_FIELDS = [
    ("1", "f4"),
    ("1", "f3"),
    ("1", "f1"),
    ("1", "f2"),
    ("2", "f4"),
    ("2", "f3"),
    ("3", "none"),
    ("3", "f2"),
]
JOURNALS = [("77", "Journal of A"), ("88", "Journal of B")]


def tsv(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]], null: str = "") -> None:
    lines = ["\t".join(header)]
    lines += ["\t".join(null if v is None else str(v) for v in row) for row in rows]
    content = "\n".join(lines).encode() + b"\n"
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)


def version_1(folder: Path, null: str = "") -> Path:
    """Tab-separated tables in CamelCase, numbers as text, NULL as an empty field or a word."""
    folder.mkdir()
    tsv(folder / "SciSciNet_Papers.tsv", NAMES, PAPERS, null)
    details = [(i, title, json.dumps(index(text)), lang) for i, title, text, lang in DETAILS]
    tsv(
        folder / "SciSciNet_PaperDetails.tsv.gz",
        ("PaperID", "Title", "Abstract_Inverted_Index", "Language"),
        details,
        null,
    )
    tsv(folder / "SciSciNet_PaperReferences.tsv", ("Citing_PaperID", "Cited_PaperID"), REFERENCES, null)
    levels = [(i, name, ("Top", "Sub", "2")[level]) for i, name, level in FIELDS]
    tsv(folder / "SciSciNet_Fields.tsv", ("FieldID", "Field_Name", "Field_Type"), levels, null)
    tsv(folder / "SciSciNet_PaperFields.tsv", ("PaperID", "FieldID"), PAPER_FIELDS, null)
    tsv(folder / "SciSciNet_Journals.tsv", ("JournalID", "Journal_Name"), JOURNALS, null)
    (folder / "SciSciNet_Authors.tsv").write_text("not read")
    return folder


def index(text: str | None) -> dict[str, list[int]] | None:
    if text is None:
        return None
    found: dict[str, list[int]] = {}
    for position, word in enumerate(text.split()):
        found.setdefault(word, []).append(position)
    return found


def version_2(folder: Path) -> Path:
    """Parquet in lower and mixed case; numbers are numbers, NULL also as NaN; fields named with the links."""
    folder.mkdir()
    types = {"paperid": pl.Int64, "journalid": pl.Int64, "year": pl.Int32, "date": pl.Date}
    names = [name.lower() if name not in ("Atyp_10pct_Z", "Atyp_Median_Z") else name for name in NAMES]
    rows = [
        (int(r[0]), r[1], dt.date.fromisoformat(r[2]) if r[2] else None, r[3], int(r[4]) if r[4] else None, *r[5:])
        for r in PAPERS
    ]  # fmt: skip
    papers = pl.DataFrame(rows, schema=names, orient="row").cast(types)  # type: ignore[arg-type]
    papers = papers.with_columns(pl.col("disruption").fill_null(float("nan")))
    papers.write_parquet(folder / "sciscinet_papers_v2.parquet")
    details = pl.DataFrame(DETAILS, schema=["paperid", "title", "abstract", "language"], orient="row")
    details.with_columns(is_retracted=pl.lit(False), is_paratext=pl.lit(None, pl.Boolean)).write_parquet(
        folder / "paper_details.parquet"
    )
    references = [(*pair, 2000, 1999, 1) for pair in REFERENCES]
    columns = ["citing_paperid", "cited_paperid", "year", "ref_year", "year_diff"]
    pl.DataFrame(references, schema=columns, orient="row").write_parquet(folder / "paper_refs.parquet")
    named = {i: (name, level) for i, name, level in FIELDS}
    links = [(p, f, 0.5, *named[f]) for p, f in PAPER_FIELDS if f in named]
    columns = ["paperid", "fieldid", "score_openalex", "display_name", "level"]
    pl.DataFrame(links, schema=columns, orient="row").write_parquet(folder / "paper_fields_alpha.parquet")
    pl.DataFrame([(int(i), n) for i, n in JOURNALS], schema=["sourceid", "display_name"], orient="row").write_parquet(
        folder / "sources.parquet"
    )
    return folder


def build(folder: Path, out: Path, **choices: object) -> CorpusCard:
    return build_corpus(SciSciNetSource(folder, **choices), out)  # type: ignore[arg-type]


def test_both_versions_give_the_same_records(tmp_path: Path) -> None:
    cards = [
        build(version_1(tmp_path / "one"), tmp_path / "out1"),
        build(version_1(tmp_path / "nan", null="nan"), tmp_path / "out2"),
        build(version_1(tmp_path / "null", null="NULL"), tmp_path / "out3"),
        build(version_2(tmp_path / "two"), tmp_path / "out4"),
    ]
    assert {card.quarantined for card in cards} == {0}
    tables = [
        {name: content for name, content in files_of(tmp_path / f"out{i}").items() if name != "card.json"}
        for i in (1, 2, 3, 4)
    ]
    assert all(table == tables[0] for table in tables)
    assert len({card.fingerprint for card in cards}) == 1


@pytest.mark.parametrize(("ending", "pack"), [(".bz2", bz2.compress), (".xz", lzma.compress)])
def test_a_table_may_be_packed_in_any_way(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]) -> None:
    card = build(version_1(tmp_path / "one"), tmp_path / "out1")
    packed = tmp_path / "one" / "SciSciNet_PaperDetails.tsv.gz"
    packed.with_suffix(ending).write_bytes(pack(gzip.decompress(packed.read_bytes())))
    packed.unlink()
    assert build(tmp_path / "one", tmp_path / "out2").fingerprint == card.fingerprint


def test_the_order_of_the_journals_changes_nothing(tmp_path: Path) -> None:
    journals = [*JOURNALS, ("77", "A, Journal of")]
    for number, rows in enumerate((journals, journals[::-1])):
        folder = version_1(tmp_path / f"in{number}")
        tsv(folder / "SciSciNet_Journals.tsv", ("JournalID", "Journal_Name"), rows)
        build(folder, tmp_path / f"out{number}")
    assert files_of(tmp_path / "out0") == files_of(tmp_path / "out1")


def test_columns_mean_what_they_say(tmp_path: Path) -> None:
    card = build(version_1(tmp_path / "one"), tmp_path / "out")
    corpus = Corpus.open(tmp_path / "out")
    assert corpus.papers("id", "year", "date", "venue", "type", "language", "cited_by_count").rows() == [
        ("2", 1999, dt.date(1999, 12, 31), "Journal of B", "Journal", "de", 0),
        ("1", 2001, dt.date(2001, 2, 3), "Journal of A", "Journal", "en", 5),
        ("3", 2005, None, None, "Conference", None, 12),
        ("5", 2010, dt.date(2010, 1, 1), None, None, None, None),
    ]
    assert corpus.papers("title", "abstract").rows() == [
        ("Second", None), ("First title", "Hello world Hello"), (None, None), ("Fifth ünï", "a b"),
    ]  # fmt: skip
    # A disruption that is NULL never becomes 0; the published scores stay what they were.
    published = ("published_disruption", "published_z_median", "published_z_p10", "published_pairs")
    assert corpus.papers(*published).rows() == [
        (None, None, None, 0), (0.0125, 12.5, -3.25, 45), (-0.5, 0.0, 0.0, 1), (1.0, 1e-5, -100.0, 3),
    ]  # fmt: skip
    assert edges_of(corpus) == [("1", "2"), ("3", "2"), ("3", "1"), ("5", "3")]
    expected = {"no_year": 1, "self_loops": 1, "dangling_edges": 1, "duplicate_edges": 1}
    assert {name: count for name, count in card.dropped.items() if count} == expected


def test_the_field_is_the_first_by_level_name_and_id_and_the_concepts_follow(tmp_path: Path) -> None:
    folder = version_1(tmp_path / "one")
    # Nine more fields of level 3: eight concepts are kept.
    more = [(f"g{n}", f"Zone {n}", 3) for n in range(9)]
    tsv(folder / "SciSciNet_Fields.tsv", ("FieldID", "Field_Name", "Field_Type"), [*FIELDS, *more, ("f0", "Art", 0)])
    links = [*PAPER_FIELDS, *(("5", f"g{n}") for n in range(9)), ("5", "f0"), ("5", "f2"), ("5", "f2")]
    tsv(folder / "SciSciNet_PaperFields.tsv", ("PaperID", "FieldID"), links[::-1])
    build(folder, tmp_path / "out")
    rows = Corpus.open(tmp_path / "out").papers("id", "field", "concepts").rows()
    assert rows == [
        ("2", "Optics", ["Lasers"]),
        ("1", "Art", ["Physics", "Optics", "Lasers"]),
        ("3", "Art", []),
        ("5", "Art", ["Art", *(f"Zone {n}" for n in range(7))]),
    ]


def test_a_table_of_fields_without_their_ids_is_an_error(tmp_path: Path) -> None:
    folder = version_1(tmp_path / "one")
    tsv(folder / "SciSciNet_Fields.tsv", ("id", "display_name", "level"), list(FIELDS))
    with pytest.raises(DataError, match=r"(?s)^SciSciNet_Fields\.tsv\b.*field: fieldid"):
        build(folder, tmp_path / "out")


def test_one_table_may_hold_numbers_and_texts(tmp_path: Path) -> None:
    # The seeds' export: texts and the inverted index beside the scores.
    folder = tmp_path / "alpha"
    folder.mkdir()
    frame = pl.DataFrame(
        {
            "paperid": ["W1", "W2", "W3", "W4"],
            "year": [2000, 2001, 2002, 2002],
            "title": ["One", "Two", "Three", "Four"],
            "abstract_inverted_index": ['{"a": [0], "b": [2]}', '{"a": [-1]}', None, "{"],
            "language": ["en"] * 4,
            "is_retracted": [False, False, True, False],
            "disruption": [0.1, 0.2, 0.3, float("inf")],
        }
    )
    frame.write_parquet(folder / "tinker_sciscinet_papers_alpha.parquet")
    pl.DataFrame({"citing_paperid": ["W2"], "cited_paperid": ["W1"]}).write_parquet(folder / "paper_refs.parquet")
    card = build(folder, tmp_path / "out")
    rows = Corpus.open(tmp_path / "out").papers("id", "title", "abstract", "language", "published_disruption").rows()
    assert rows == [
        ("W1", "One", "a b", "en", 0.1), ("W2", "Two", None, "en", 0.2), ("W4", "Four", None, "en", None),
    ]  # fmt: skip
    assert (card.dropped["retracted"], card.dropped["bad_abstracts"], card.quarantined) == (1, 2, 2)
    assert card.edges == 1
    kept = build(folder, tmp_path / "kept", keep=frozenset({"retracted"}))
    assert kept.papers == 4


def test_what_cannot_be_read_is_set_aside_or_counted(tmp_path: Path) -> None:
    folder = version_1(tmp_path / "one")
    rows: list[tuple[object, ...]] = [
        *PAPERS[:3],
        ("6", "x", None, None, None, 1, None, None, None, None),
        ("7", 2000, "3 May 2000", None, None, 1, None, None, None, None),
        ("8", 2000, None),
        ("9", 2000, "2000/05/03", None, None, "many", None, None, None, None),
        (None, 2000, None, None, None, 1, None, None, None, None),
        ("10", 2000, "2000/05/03 00:00", None, None, 1, None, None, None, None),
    ]
    tsv(folder / "SciSciNet_Papers.tsv", NAMES, rows)
    tsv(folder / "SciSciNet_PaperReferences.tsv", ("Citing_PaperID", "Cited_PaperID"), [("1", "2"), ("3", None)])
    card = build(folder, tmp_path / "out")
    found = [(e["file"], e["line"], e["reason"]) for e in quarantined(tmp_path / "out")]
    assert found == [
        ("SciSciNet_Papers.tsv", 7, "3 fields for 10"),
        ("SciSciNet_Papers.tsv", 5, "year cannot be read"),
        ("SciSciNet_PaperReferences.tsv", 3, "an end is missing"),
    ]
    # A value that cannot be read costs itself, not the paper.
    assert (card.dropped["bad_dates"], card.dropped["bad_values"], card.dropped["no_id"]) == (1, 1, 1)
    dates = dict(Corpus.open(tmp_path / "out").papers("id", "date").rows())
    assert dates["7"] is None
    assert dates["10"] == dt.date(2000, 5, 3)


def test_tables_that_are_missing_twice_there_or_damaged_are_errors(tmp_path: Path) -> None:
    folder = version_1(tmp_path / "one")
    pl.DataFrame({"x": [1]}).write_parquet(folder / "papers.parquet")
    with pytest.raises(DataError, match="field: tables"):
        build(folder, tmp_path / "out")
    (folder / "papers.parquet").unlink()
    path = folder / "SciSciNet_PaperDetails.tsv.gz"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"(?m)SciSciNet_PaperDetails\.tsv\.gz: .* \d+\)$"):
        build(folder, tmp_path / "out")
    card = build(folder, tmp_path / "out", skip_bad=True)
    assert (card.papers, card.dropped["bad_files"]) == (4, 1)
    tsv(folder / "SciSciNet_Papers.tsv", ("PaperID", "Title"), [("1", "x")])
    with pytest.raises(DataError, match=r"(?s)^SciSciNet_Papers\.tsv\b.*field: year"):
        build(folder, tmp_path / "out2")
    (folder / "SciSciNet_PaperReferences.tsv").unlink()
    with pytest.raises(DataError, match="field: tables"):
        build(folder, tmp_path / "out2")
