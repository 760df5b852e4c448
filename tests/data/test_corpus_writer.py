import datetime as dt
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from building import SOURCE, edges_of, files_of, quarantined, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinsmith.data import paper_table, row_order, spill
from tinsmith.data.content_digest import ContentDigest
from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.last_year import last_year, year_changed
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import MetricSettings
from tinsmith.data.paper import Paper
from tinsmith.data.schema import EDGE_COLUMNS, PAPER_COLUMNS
from tinsmith.types.errors import DataError

DAY = dt.date(2000, 5, 1)


def test_rows_are_sorted_by_year_then_missing_dates_then_date_then_id(tmp_path: Path) -> None:
    papers = [
        Paper(id="z", year=2000, date=DAY),
        Paper(id="b", year=2000),
        Paper(id="a", year=2000, date=DAY),
        Paper(id="c", year=2000, date=dt.date(2000, 4, 30)),
        Paper(id="d", year=1999, date=dt.date(1999, 12, 31)),
        Paper(id="B", year=2000),
    ]
    write(tmp_path, papers)
    corpus = Corpus.open(tmp_path)
    assert corpus.papers("id")["id"].to_list() == ["d", "B", "b", "c", "a", "z"]
    assert dict(corpus.papers().schema) == PAPER_COLUMNS
    assert dict(pl.read_parquet_schema(tmp_path / "edges.parquet")) == EDGE_COLUMNS


def test_every_column_survives(tmp_path: Path) -> None:
    paper = Paper(
        id="W1",
        year=2000,
        title="A title",
        abstract='An abstract: ünïcode, "quotes", tab\t, line\nfeed',
        date=DAY,
        venue="Journal",
        field="Field",
        concepts=["b", "a"],
        type="article",
        language="en",
        cited_by_count=7,
        published_disruption=-0.25,
        published_z_median=1.5,
        published_z_p10=-3.0,
        published_pairs=45,
        cause="pioneer",
    )
    write(tmp_path, [paper])
    row = Corpus.open(tmp_path).papers().row(0, named=True)
    assert row == {name: getattr(paper, name) for name in PAPER_COLUMNS}


def test_dirty_edges_are_dropped_and_counted_and_a_newer_reference_stays(tmp_path: Path) -> None:
    # Reference check 5: focal f, its reference r2 is newer than f; two citers; and dirt.
    papers = [
        Paper(id=name, year=year) for name, year in (("f", 2000), ("r1", 1990), ("r2", 2003), ("a", 2004), ("b", 2004))
    ]
    clean = [("f", "r1"), ("f", "r2"), ("a", "f"), ("a", "r2"), ("b", "f")]
    dirt = [("f", "f"), ("a", "f"), ("a", "unknown"), ("unknown", "f")]
    card = write(tmp_path / "kept", papers, [*dirt, *clean])
    assert sorted(edges_of(Corpus.open(tmp_path / "kept"))) == sorted(clean)
    assert card.dropped["self_loops"] == 1
    assert card.dropped["duplicate_edges"] == 1
    assert card.dropped["dangling_edges"] == 2
    assert card.dropped["forward_edges"] == 0
    assert card.forward_edges == 1
    assert (card.papers, card.edges) == (5, 5)
    card = write(tmp_path / "dropped", papers, [*clean[::-1], *dirt], drop_forward=True)
    assert sorted(edges_of(Corpus.open(tmp_path / "dropped"))) == sorted(clean[:1] + clean[2:])
    assert (card.forward_edges, card.dropped["forward_edges"]) == (0, 1)


@pytest.mark.parametrize(
    ("citing", "cited", "forward"),
    [
        ((2000, DAY), (2000, dt.date(2000, 5, 2)), True),
        ((2000, DAY), (2000, DAY), False),
        ((2000, DAY), (2000, None), False),
        ((2000, None), (2000, DAY), False),
        ((2000, None), (2001, None), True),
        ((2000, DAY), (2001, None), True),
        ((2001, None), (2000, DAY), False),
    ],
)
def test_forward_is_by_date_where_both_have_one_else_by_year(
    tmp_path: Path, citing: tuple[int, dt.date | None], cited: tuple[int, dt.date | None], forward: bool
) -> None:
    papers = [Paper(id=name, year=year, date=date) for name, (year, date) in (("citing", citing), ("cited", cited))]
    assert write(tmp_path, papers, [("citing", "cited")]).forward_edges == forward


def test_of_several_copies_the_latest_stays_with_its_own_references(tmp_path: Path) -> None:
    others = [Paper(id="r1", year=1990), Paper(id="r2", year=1990)]
    copies = [
        Paper(id="p", year=2000, title="old", updated="2024-01-01", references=["r1"]),
        Paper(id="p", year=2001, title="new", updated="2025-01-01T10:00:00", references=["r2"]),
        Paper(id="p", year=2002, title="undated", references=["r1", "r2"]),
    ]
    card = write(tmp_path, [*copies, *others], [("p", "r1")])
    corpus = Corpus.open(tmp_path)
    assert corpus.papers("title")["title"].drop_nulls().to_list() == ["new"]
    # An edge given between ids belongs to no copy and stays.
    assert sorted(edges_of(corpus)) == [("p", "r1"), ("p", "r2")]
    assert card.dropped["duplicate_papers"] == 2
    assert card.dropped["superseded_edges"] == 3


def test_an_excluded_record_takes_the_place_of_older_copies(tmp_path: Path) -> None:
    papers = [
        Paper(id="p", year=2000, updated="2024"),
        Paper(id="p", year=2000, updated="2025", excluded="retracted"),
        Paper(id="q", year=2000, updated="2025"),
        Paper(id="q", year=2000, updated="2024", excluded="retracted"),
        Paper(id="t", year=2000, updated="2025", title="long enough"),
        Paper(id="t", year=2000, updated="2025", excluded="paratext"),
        Paper(id="no year", year=2000, updated="2024"),
        Paper(id="no year", year=None, updated="2025", excluded="retracted"),
        Paper(id="stays", year=2000, date=DAY),
    ]
    card = write(tmp_path, papers, [("stays", "p"), ("stays", "q"), ("stays", "no year")])
    assert Corpus.open(tmp_path).papers("id")["id"].to_list() == ["q", "stays"]
    assert (card.dropped["retracted"], card.dropped["paratext"], card.dropped["no_year"]) == (2, 1, 0)
    assert card.dropped["duplicate_papers"] == 4
    assert card.dropped["dangling_edges"] == 2


def test_papers_without_year_or_id_and_dates_outside_their_year(tmp_path: Path) -> None:
    papers = [
        Paper(id="", year=2000),
        Paper(id="x", year=None),
        Paper(id="kept", year=2001, date=DAY),
        Paper(id="fine", year=2000, date=DAY),
    ]
    card = write(tmp_path, papers, [("x", "kept")])
    assert card.dropped["no_id"] == card.dropped["no_year"] == 1
    assert card.dropped["dates_outside_year"] == card.dropped["dangling_edges"] == 1
    assert Corpus.open(tmp_path).papers("id", "date").rows() == [("fine", DAY), ("kept", None)]
    assert card.years == {2000: 1, 2001: 1}
    assert card.missing == {"title": 2, "abstract": 2, "date": 1, "venue": 2, "field": 2}


def test_ordinals_and_ids_give_the_same_edges(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["c", "a", "x", "b"], "year": [2002, 2000, None, 2001]})
    with CorpusWriter(tmp_path / "ordinals", source=SOURCE) as writer:
        writer.add([Paper(id="first", year=1999)])
        assert writer.papers == 1
        citing = np.array([1, 1, 4, 1, 3, 1])
        cited = np.array([2, 4, 2, -1, 2, 99])
        writer.add_frame(frame, citing, cited)
        writer.add_frame(pl.DataFrame({"id": ["d"], "year": [2003]}), np.array([5]), pl.Series(["a"]))
    papers = [Paper(id=i, year=y) for i, y in (("c", 2002), ("a", 2000), ("b", 2001), ("d", 2003))]
    ids = [("c", "a"), ("c", "b"), ("b", "a"), ("c", "?"), ("x", "a"), ("c", "??"), ("d", "a")]
    card = write(tmp_path / "ids", [*papers, Paper(id="first", year=1999)], ids)
    assert writer.card.fingerprint == card.fingerprint
    assert writer.card.dropped["dangling_edges"] == card.dropped["dangling_edges"] == 3
    with pytest.raises(ValueError, match=r"\['journal'\]"), CorpusWriter(tmp_path / "other", source=SOURCE) as writer:
        writer.add_frame(frame.with_columns(journal=pl.lit("x")))


records = st.builds(
    Paper,
    id=st.sampled_from("abcdefg"),
    year=st.none() | st.integers(1990, 1993),
    title=st.none() | st.sampled_from(["one", "two", "three"]),
    date=st.none() | st.dates(dt.date(1990, 1, 1), dt.date(1993, 12, 31)),
    concepts=st.lists(st.sampled_from(["x", "y"]), max_size=2),
    references=st.lists(st.sampled_from("abcdefgh"), max_size=4),
    updated=st.none() | st.sampled_from(["2024", "2025"]),
    excluded=st.none() | st.just("xpac"),
)


@pytest.mark.whole
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    papers=st.lists(records, min_size=1, max_size=20),
    edges=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=20),
    order=st.randoms(use_true_random=False),
    sizes=st.tuples(st.integers(1, 400), st.integers(1, 7), st.integers(1, 300)),
)
def test_the_order_and_the_chunks_of_the_input_change_no_byte(
    papers: list[Paper],
    edges: list[tuple[str, str]],
    order: random.Random,
    sizes: tuple[int, int, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    papers = [Paper(id="always", year=1990), *papers]
    outs = [tmp_path_factory.mktemp("corpus") for _ in range(2)]
    first = write(outs[0], papers, edges)
    order.shuffle(papers)
    order.shuffle(edges)
    with pytest.MonkeyPatch.context() as patch:
        # Small parts and buckets: many of each, and records of one id in different ones.
        patch.setattr(spill, "_RECORDS", 3)
        patch.setattr(row_order, "BUCKET_BYTES", sizes[2])
        with CorpusWriter(outs[1], source=SOURCE) as writer:
            writer._spill.part_bytes = sizes[0]  # pyright: ignore[reportPrivateUsage]
            writer._spill.part_edges = sizes[1]  # pyright: ignore[reportPrivateUsage]
            for start in range(0, max(len(papers), len(edges)), 2):
                writer.add(papers[start : start + 2])
                some = edges[start : start + 2]
                writer.add_edges([citing for citing, _ in some], [cited for _, cited in some])
    assert writer.card == first
    assert files_of(outs[0]) == files_of(outs[1])
    total = first.edges + sum(
        first.dropped[name] for name in ("self_loops", "duplicate_edges", "dangling_edges", "superseded_edges")
    )
    assert total == len(edges) + sum(len(paper.references) for paper in papers)


def test_no_more_than_a_part_of_the_texts_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    read, update = paper_table.read_part, ContentDigest.update

    def reading(path: Path, *columns: str) -> pl.DataFrame:
        frame = read(path, *columns)
        held.append(frame["abstract"].str.len_bytes().sum())
        return frame

    def updating(self: ContentDigest, chunk: pl.DataFrame) -> None:
        held.append(chunk["abstract"].str.len_bytes().sum())
        update(self, chunk)

    monkeypatch.setattr(paper_table, "read_part", reading)
    monkeypatch.setattr(ContentDigest, "update", updating)
    monkeypatch.setattr(row_order, "BUCKET_BYTES", 20_000)
    rng = random.Random(0)
    with CorpusWriter(tmp_path, source=SOURCE) as writer:
        writer._spill.part_bytes = 30_000  # pyright: ignore[reportPrivateUsage]
        for _ in range(50):
            writer.add([Paper(id=f"{rng.random()}", year=2000, abstract="x" * 1000) for _ in range(8)])
            assert len(writer._spill._records) * 1000 < 40_000  # pyright: ignore[reportPrivateUsage]
    assert writer.card.papers == 400
    assert len(held) > 20
    assert max(held) <= 40_000  # of 400,000


_BUILD = """
import sys
from pathlib import Path
from tinsmith.data import edge_table, paper_table, row_order
from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper

paper_table._ROW_GROUP = edge_table._ROW_GROUP = 64
row_order.BUCKET_BYTES = 40_000
with CorpusWriter(Path(sys.argv[1]), source=SourceDescription(kind=SourceKind.FILES)) as writer:
    for n in range(3000):
        cited = [str(n * k % 997) for k in range(5)]
        writer.add([Paper(id=str(n), year=1990 + n % 7, abstract=f"{n} " * 50, references=cited)])
"""


def test_the_number_of_threads_changes_no_byte(tmp_path: Path) -> None:
    for threads in ("1", "3"):
        subprocess.run(
            [sys.executable, "-c", _BUILD, str(tmp_path / threads)],
            env={**os.environ, "POLARS_MAX_THREADS": threads},
            check=True,
        )
    assert files_of(tmp_path / "1") == files_of(tmp_path / "3")


def test_an_error_leaves_nothing_and_an_old_corpus_alone(tmp_path: Path) -> None:
    out = tmp_path / "corpus"

    def fail(*, force: bool) -> None:
        with CorpusWriter(out, source=SOURCE, force=force) as writer:
            writer.add([Paper(id="b", year=2000)])
            writer.quarantine("f", 1, "r", "t")
            raise KeyError

    with pytest.raises(KeyError):
        fail(force=False)
    assert not out.exists()
    write(out, [Paper(id="a", year=2000)])
    before = files_of(out)
    with pytest.raises(KeyError):
        fail(force=True)
    assert files_of(out) == before


def test_a_folder_with_something_in_it_is_refused_unless_forced(tmp_path: Path) -> None:
    write(tmp_path, [Paper(id="a", year=2000)])
    for name in ("metrics.parquet", "metrics.json", "card.html", "works.txt", "works.csv", "notes.txt"):
        (tmp_path / name).write_text("old")
    with pytest.raises(DataError, match="field: out") as caught:
        CorpusWriter(tmp_path, source=SOURCE)
    assert "--force" in str(caught.value)
    (tmp_path / ".parts-left").mkdir()
    with CorpusWriter(tmp_path, source=SOURCE, force=True) as writer:
        writer.add([Paper(id="b", year=2000)])
    assert sorted(files_of(tmp_path)) == ["card.json", "edges.parquet", "notes.txt", "papers.parquet"]
    assert not (tmp_path / ".parts-left").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is not a folder"):
        CorpusWriter(tmp_path / "file", source=SOURCE, force=True)


def test_a_second_writer_of_a_folder_is_refused_and_the_first_one_stays_whole(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    for force in (False, True):
        with CorpusWriter(out, source=SOURCE, force=force) as first:
            first.add([Paper(id="a", year=2000)])
            with (
                pytest.raises(DataError, match="another build writes to"),
                CorpusWriter(out, source=SOURCE, force=force),
            ):
                pass
        assert Corpus.open(out).papers("id")["id"].to_list() == ["a"]
        assert sorted(files_of(tmp_path)) == [
            f"corpus/{name}" for name in ("card.json", "edges.parquet", "papers.parquet")
        ]


def test_a_corpus_without_papers_is_an_error_that_says_why(tmp_path: Path) -> None:
    def build() -> None:
        with CorpusWriter(tmp_path / "out", source=SOURCE) as writer:
            writer.add([Paper(id="a", year=None), Paper(id="b", year=None)])
            writer.quarantine("f", 3, "bad", "text")

    with pytest.raises(DataError, match=r"\b2 no_year, 1 malformed\b.*\bf:3: bad"):
        build()


def test_quarantine_keeps_file_line_reason_and_the_beginning_of_the_text(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "out", source=SOURCE) as writer:
        writer.add([Paper(id="a", year=2000)])
        writer.quarantine("part.gz", 7, "truncated JSON", "x" * 2000)
        writer.quarantine("part.gz", 9, "odd", "a\ud800b")
    assert writer.card.quarantined == 2
    first, second = quarantined(tmp_path / "out")
    assert first == {"file": "part.gz", "line": 7, "reason": "truncated JSON", "text": "x" * 500}
    assert second["text"] == "a?b"
    with (
        pytest.raises(DataError, match=r"part\.gz:7: truncated JSON"),
        CorpusWriter(tmp_path / "strict", source=SOURCE, strict=True) as writer,
    ):
        writer.quarantine("part.gz", 7, "truncated JSON", "x")


def test_the_card_has_every_counter_and_the_cut(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path, source=SOURCE) as writer:
        writer.add([Paper(id="a", year=2000)])
        writer.recommend(0.02)
        writer.count("odd_things", 3)
    content = json.loads((tmp_path / "card.json").read_text())
    assert content["thresholds"] == 0.02
    assert content["dropped"]["odd_things"] == 3
    assert {"retracted", "xpac", "no_id", "bad_files", "bad_abstracts"} <= content["dropped"].keys()
    assert Corpus.open(tmp_path).card == writer.card


def test_the_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    base = Paper(id="a", year=2000, title="t", concepts=["x", "y"])
    other = Paper(id="b", year=2000)
    changed = [
        Paper(id="a", year=2000, title="t", concepts=["xy", ""]),
        Paper(id="a", year=2000, title="", concepts=["x", "y"]),
        Paper(id="a", year=2000, abstract="t", concepts=["x", "y"]),
        Paper(id="a", year=2000, title="t", concepts=["x", "y"], cited_by_count=0),
    ]
    cards = [write(tmp_path / str(i), [one, other]) for i, one in enumerate([base, *changed])]
    cards.append(write(tmp_path / "edge", [base, other], [("a", "b")]))
    assert len({card.fingerprint for card in cards}) == len(cards)
    # A constant: the fingerprint is part of every later card and must not move by accident.
    assert cards[0].fingerprint == "b5998d161506632537cc8499aa47aa864db4434f421f0862a33a78d4edb4bac7"


@pytest.mark.parametrize(
    ("papers", "changed", "expected"),
    [
        ({2000: 1}, None, 2000),
        ({2019: 1, 2020: 1, 2021: 1, 2022: 1}, None, 2022),
        ({2019: 1, 2020: 1, 2021: 1, 2022: 1, 2050: 1}, None, 2022),
        ({2019: 1, 2020: 1, 2021: 1, 2026: 1}, 2022, 2021),
        ({2050: 3}, 2022, 2050),
        ({1991: 1, 2001: 3142, 2002: 3313, 2003: 1018}, None, 2003),
        ({2021: 1000, 2022: 1000, 2023: 9, 2024: 2, 2040: 1, 2051: 1}, None, 2022),
        ({1990: 50, 2005: 50}, None, 2005),
        ({year: 10 for year in range(1800, 2000)}, None, 1999),
    ],
)
def test_the_end_is_where_the_papers_end(papers: dict[int, int], changed: int | None, expected: int) -> None:
    assert last_year(papers, changed) == expected


def test_the_latest_change_is_read_from_what_says_so() -> None:
    assert year_changed(["2025-11-06T10:00:00", None, "2024", "soon", "20251106"]) == 2025
    assert year_changed([None]) is None


def test_a_paper_of_2050_closes_no_window_and_is_counted(tmp_path: Path) -> None:
    papers = [Paper(id=f"p{year}", year=year) for year in range(2010, 2023)]
    edges = [("p2022", "p2011"), ("p2020", "p2012")]
    closed = []
    for name, some in (("a", papers), ("b", [*papers, Paper(id="z", year=2050)])):
        card = write(tmp_path / name, some, edges)
        corpus = Corpus.open(tmp_path / name)
        compute_metrics(corpus, MetricSettings())
        closed.append(corpus.metrics("id", "full_window").filter(pl.col("full_window"))["id"].to_list())
        assert (card.last_year, card.later_papers) == (2022, len(some) - len(papers))
    assert closed[0] == closed[1] == [f"p{year}" for year in range(2010, 2018)]
