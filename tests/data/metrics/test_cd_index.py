"""The CD index on graphs small enough to be worked out by hand."""

from pathlib import Path

import numpy as np
import pytest
from corpora import Hepth, Toy, hepth, peer, random_edges, small_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tinsmith.data.indices.cd import CdCounts, cd_frame, count_cd, count_citers
from tinsmith.data.indices.graph import CitationGraph
from tinsmith.data.indices.windows import UNDATED, Windows
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import Granularity, MetricSettings
from tinsmith.ops import extension
from tinsmith.ops.extension import configure
from tinsmith.types.errors import DataError

README_YEARS = {
    **{"0Z": 1992, "1Z": 1992, "2Z": 1993, "3Z": 1993, "4Z": 1995, "5Z": 1997, "6Z": 1998},
    **{"7Z": 1999, "8Z": 1999, "9Z": 1998, "10Z": 1997},
}
README_EDGES = "4>2 4>0 4>1 4>3 5>2 6>2 6>4 7>4 8>4 9>4 9>1 9>3 10>4"

Row = dict[str, object]


def metrics(folder: Path, times: dict[str, int | str], edges: str, **settings: object) -> dict[str, Row]:
    """Compute the metrics of papers at years or dates, with edges written as `a>b`; by id."""
    toys = [Toy(id, date=time) if isinstance(time, str) else Toy(id, time) for id, time in times.items()]
    pairs = [edge.split(">") for edge in edges.split()]
    corpus = small_corpus(folder, toys, [(a, b) for a, b in pairs])
    compute_metrics(corpus, MetricSettings(**settings))
    return {str(row["id"]): row for row in corpus.metrics().iter_rows(named=True)}


def readme(folder: Path, *, dates: bool = False, **settings: object) -> dict[str, Row]:
    times = {id: f"{year}-01-01" if dates else year for id, year in README_YEARS.items()}
    edges = " ".join("Z>".join(edge.split(">")) + "Z" for edge in README_EDGES.split())
    return metrics(folder, times, edges, **settings)


def test_readme_graph(tmp_path: Path) -> None:
    rows = readme(tmp_path)
    cd = {id: row["cd"] for id, row in rows.items()}
    assert cd == {
        **dict.fromkeys(("0Z", "1Z", "2Z", "3Z"), 1.0),
        "4Z": 0.16666666666666666,
        **dict.fromkeys(("5Z", "6Z", "9Z", "10Z"), 0.0),
        **dict.fromkeys(("7Z", "8Z"), None),
    }
    four = rows["4Z"]
    assert (four["n_i"], four["n_j"], four["n_k"]) == (3, 2, 1)
    assert four["mcd_cdindex"] == 0.8333333333333333
    assert rows["2Z"]["mcd_cdindex"] == 3.0


def test_readme_graph_by_window(tmp_path: Path) -> None:
    by_window = [readme(tmp_path / str(t), window=t)["4Z"]["cd"] for t in range(1, 6)]
    assert by_window == [None, 0.5, -0.25, 1 / 6, 1 / 6]


def test_five_years_in_days_end_on_the_same_date_five_years_later(tmp_path: Path) -> None:
    day = {"dates": True, "granularity": Granularity.DAY}
    default = readme(tmp_path / "1826", **day)
    shorter = readme(tmp_path / "1825", window_days=1825, **day)
    assert (default["2Z"]["mcd_cdindex"], shorter["2Z"]["mcd_cdindex"]) == (3.0, 2.0)
    assert default["4Z"]["cd"] == shorter["4Z"]["cd"] == 1 / 6
    assert shorter["4Z"]["mcd_cdindex"] == 0.8333333333333333


@pytest.mark.parametrize(
    ("edges", "cd"),
    [
        ("a>f b>f c>f", 1.0),
        ("a>f a>r1 b>f b>r2 c>f c>r1", -1.0),
        ("a>f b>f b>r1 c>r2", 0.0),
        ("a>f b>f c>f c>r1 d>r1 e>r2 g>r2 g>r1", 0.16666666666666666),
    ],
    ids=["only the focal paper", "both", "one of each", "i=2 j=1 k=3"],
)
def test_panels_of_wu_wang_and_evans(tmp_path: Path, edges: str, cd: float) -> None:
    times = {"f": 2000, "r1": 1990, "r2": 1990, **dict.fromkeys("abcdeg", 2003)}
    assert metrics(tmp_path, times, f"f>r1 f>r2 {edges}")["f"]["cd"] == cd


def test_degenerate_papers_keep_their_reason(tmp_path: Path) -> None:
    times = {"none": 2000, "uncited": 2000, "r": 1990, "a": 2002, "b": 2003, "alone": 2000}
    rows = metrics(tmp_path, times, "a>none b>none uncited>r a>r")
    seen = {id: (row["cd"], row["cd_status"]) for id, row in rows.items()}
    assert seen["none"] == (1.0, "no_refs")
    assert seen["uncited"] == (0.0, "no_window_citers")
    assert seen["alone"] == seen["b"] == (None, "empty")
    undefined = ("cd", "mcd_cdindex", "mcd_window", "di_no_k", "di_5", "dep")
    assert [rows["alone"][name] for name in undefined] == [None] * 6


def test_citers_of_the_same_year_or_earlier_do_not_count(tmp_path: Path) -> None:
    times = {"f": 2000, "r": 1990, "same": 2000, "early": 1999, "last": 2005, "late": 2006}
    row = metrics(tmp_path, times, "f>r same>f early>f last>f late>f")["f"]
    assert (row["n_i"], row["n_j"], row["n_k"], row["citations"]) == (1, 0, 0, 4)


@pytest.mark.parametrize(
    ("times", "edges", "cd", "until_end"),
    [
        ({"a": 2000, "b": 2001}, "a>f b>f b>r", -1.0, 2),
        ({"a": 2005, "b": 2006}, "a>f b>f b>r", 1.0, 1),
        ({"a": 1999, "b": 2001}, "a>f b>f", 1.0, 2),
    ],
    ids=["same year", "after the window", "before the paper"],
)
def test_window_edges(tmp_path: Path, times: dict[str, int], edges: str, cd: float, until_end: int) -> None:
    row = metrics(tmp_path, {"f": 2000, "r": 1990, **times}, f"f>r {edges}")["f"]
    assert row["cd"] == cd
    assert row["mcd_cdindex"] == cd * until_end
    assert row["mcd_window"] == cd


def test_a_reference_newer_than_the_paper_counts(tmp_path: Path) -> None:
    times = {"f": 2000, "r1": 1990, "r2": 2003, "a": 2004, "b": 2004}
    assert metrics(tmp_path, times, "f>r1 f>r2 a>f a>r2 b>f")["f"]["cd"] == 0.0


def test_variants_of_the_index(tmp_path: Path) -> None:
    references = [f"r{i}" for i in range(6)]
    times = {"f": 2000, **dict.fromkeys(references, 1990), **dict.fromkeys("abcde", 2003)}
    five = " ".join(f"a>r{i}" for i in range(5))
    cites = " ".join(f"f>{r}" for r in references)
    row = metrics(tmp_path, times, f"{cites} a>f {five} b>f b>r0 c>f d>f e>r5")["f"]
    assert (row["n_i"], row["n_j"], row["n_k"], row["n_j5"]) == (2, 2, 1, 1)
    assert row["di_no_k"] == 0.0
    assert row["di_5"] == (2 - 1) / (2 + 1 + 1)
    assert row["dep"] == (5 + 1) / 4


def test_full_window_ends_with_the_corpus(tmp_path: Path) -> None:
    years = metrics(tmp_path / "year", {"a": 2000, "b": 2001, "z": 2005}, "b>a")
    assert [years[id]["full_window"] for id in "abz"] == [True, False, False]
    dates = {"a": "2000-03-01", "b": "2000-03-02", "z": "2005-03-01"}
    days = metrics(tmp_path / "day", dates, "b>a", granularity=Granularity.DAY)
    assert [days[id]["full_window"] for id in "abz"] == [True, False, False]


def test_papers_without_a_date_lie_in_no_window_of_days(tmp_path: Path) -> None:
    times: dict[str, int | str] = {"r": 1999, "f": "2000-05-01", "a": "2001-01-01", "u": 2001}
    rows = metrics(tmp_path, times, "f>r a>f u>f u>r a>u", granularity=Granularity.DAY)
    assert (rows["f"]["n_i"], rows["f"]["n_k"], rows["f"]["mcd_cdindex"]) == (1, 0, 1.0)
    assert (rows["u"]["cd"], rows["u"]["cd_status"], rows["u"]["citations"]) == (None, "empty", 1)
    assert not rows["u"]["full_window"]


def same(a: CdCounts, b: CdCounts) -> bool:
    return cd_frame(a).equals(cd_frame(b))


def test_the_order_of_edges_does_not_matter() -> None:
    citing, cited = random_edges(500, seed=1)
    years = np.sort(np.random.default_rng(0).integers(1990, 2010, 500)).astype(np.int32)
    shuffled = np.random.default_rng(2).permutation(len(citing))
    expected = count_cd(citing, cited, years, 5)
    assert same(count_cd(citing[shuffled], cited[shuffled], years, 5), expected)


def test_rows_may_be_counted_in_any_order() -> None:
    citing, cited = random_edges(400, seed=3)
    days = np.sort(np.random.default_rng(0).integers(0, 9000, 400)).astype(np.int32)
    graph, windows = CitationGraph.from_edges(citing, cited, 400), Windows.after(days, 1826)
    expected = count_citers(graph, windows)
    arrays = [np.zeros(400, np.uint32) for _ in range(5)]
    shared = np.zeros(400, np.uint64)
    cursors = np.repeat(graph.in_pointer[:-1], 2)
    for begin in range(390, -1, -10):
        extension.module().count_citers(
            *(graph.out_pointer, graph.out, graph.in_pointer, graph.into),
            *(windows.begin, windows.end, 0, cursors, begin, begin + 10, *arrays, shared),
        )
    assert same(CdCounts(expected.references, expected.citations, *arrays, shared), expected)


def test_shared_references_are_told_from_rows_that_look_alike() -> None:
    # Lookups go through 2**14 bits: the citer's other references fall on the same ones as the paper's.
    size = 1 << 14
    paper, citer = 3 * size, 3 * size + 1
    citing = np.array([paper] * 3 + [citer] * 5, np.uint32)
    cited = np.array([5, 6, 7, 5, 5 + size, 6 + size, 7 + 2 * size, paper], np.uint32)
    times = np.zeros(citer + 1, np.int32)
    times[paper], times[citer] = 1, 2
    counts = count_cd(citing, cited, times, 5)
    assert (counts.both[paper], counts.shared[paper]) == (1, 1)


def test_a_graph_refuses_what_a_corpus_never_has() -> None:
    def edges(*pairs: tuple[int, int]) -> CitationGraph:
        citing, cited = np.array(pairs, np.uint32).T
        return CitationGraph.from_edges(citing.copy(), cited.copy(), 3)

    with pytest.raises(DataError, match="cites itself"):
        edges((1, 1))
    with pytest.raises(DataError, match="occurs twice"):
        edges((1, 0), (2, 0), (1, 0))
    with pytest.raises(DataError, match="no paper"):
        edges((1, 3))
    with pytest.raises(DataError, match="time order"):
        Windows.after(np.array([1999, 1998], np.int32), 5)


def test_undated_papers_have_empty_windows_before_all_others() -> None:
    windows = Windows.after(np.array([UNDATED, UNDATED, 3, 3, 4], np.int32), 1)
    assert windows.first_dated == 2
    assert windows.begin.tolist() == [2, 2, 4, 4, 5]
    assert windows.end.tolist() == [2, 2, 5, 5, 5]


PAPERS = 2000


def bits(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(values).view(np.uint64)


def assert_equals_peer(counts: CdCounts, graph: object, length: int) -> None:
    """Check cd and mcd of every paper: the same bits, and null where the peer has none."""
    names = [str(row) for row in range(len(counts.citers))]
    frame = cd_frame(counts)
    cd = [graph.cdindex(name, length) for name in names]
    # The package's mcdindex is this product; asked for itself, it would compute cdindex once more.
    mcd = [None if value is None else value * graph.iindex(name, length) for name, value in zip(names, cd, strict=True)]
    for column, expected in (("cd", cd), ("mcd_cdindex", mcd)):
        ours = frame[column]
        assert [value is None for value in expected] == ours.is_null().to_list()
        known = np.array([value for value in expected if value is not None])
        assert (bits(ours.drop_nulls().to_numpy()) == bits(known)).all()


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(5))
def test_random_graphs_by_year(seed: int) -> None:
    citing, cited = random_edges(PAPERS, seed)
    years = np.sort(np.random.default_rng(seed).integers(1980, 2010, PAPERS)).astype(np.int32)
    graph = peer(years.tolist(), citing, cited)
    seen: set[bytes] = set()
    for number in (1, 2, 4):
        configure(threads=number)
        counts = count_cd(citing, cited, years, 5)
        seen.add(cd_frame(counts).serialize())
    assert len(seen) == 1
    assert_equals_peer(counts, graph, 5)


@pytest.mark.whole
def test_random_graph_by_day() -> None:
    citing, cited = random_edges(PAPERS, seed=9)
    days = np.sort(np.random.default_rng(9).integers(0, 11_000, PAPERS)).astype(np.int32)
    graph = peer(days.tolist(), citing, cited)
    assert_equals_peer(count_cd(citing, cited, days, 1826), graph, 1826)


@pytest.fixture(scope="module")
def real() -> Hepth:
    return hepth()


@pytest.mark.whole
@pytest.mark.parametrize("granularity", ["year", "day"])
def test_every_paper_of_hepth(real: Hepth, granularity: str) -> None:
    times, length = (real.years, 5) if granularity == "year" else (real.days, 1826)
    counts = count_cd(real.citing, real.cited, times, length)
    assert (len(times), len(real.citing)) == (29_555, 352_768)
    graph = peer(times.tolist(), real.citing, real.cited)
    assert_equals_peer(counts, graph, length)


def by_sets(edges: set[tuple[int, int]], times: list[int], paper: int, length: int) -> tuple[int, ...]:
    """Count for one paper as the definition reads."""
    cites = {p: {b for a, b in edges if a == p} for p in range(len(times))}
    dated = [p for p in range(len(times)) if UNDATED not in (times[p], times[paper])]
    window = [p for p in dated if times[paper] < times[p] <= times[paper] + length]
    references = cites[paper]
    citers = {p for p in window if paper in cites[p]}
    reached = {p for p in window if cites[p] & references}
    shared = [len(cites[p] & references) for p in citers]
    until_end = [p for p in dated if paper in cites[p] and times[p] <= times[paper] + length]
    return (
        *(len(references), sum(paper in cites[p] for p in cites), len(citers)),
        *(len(citers & reached), sum(n >= 5 for n in shared), len(reached)),
        *(len(until_end), sum(shared)),
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[set[tuple[int, int]], list[int], int]:
    papers = draw(st.integers(1, 12))
    time = st.integers(0, 8) | st.just(UNDATED) if draw(st.booleans()) else st.integers(0, 8)
    dated = sorted(t for t in (draw(time) for _ in range(papers)) if t != UNDATED)
    times = list(dated)
    for _ in range(papers - len(dated)):
        times.insert(draw(st.integers(0, len(times))), UNDATED)
    row = st.integers(0, papers - 1)
    edges = draw(st.sets(st.tuples(row, row).filter(lambda e: e[0] != e[1]), max_size=60))
    return edges, times, draw(st.integers(1, 9))


@pytest.mark.whole
@settings(max_examples=300, deadline=None, derandomize=True)
@given(graphs())
def test_any_graph_counts_as_the_definition_reads(drawn: tuple[set[tuple[int, int]], list[int], int]) -> None:
    edges, times, length = drawn
    citing, cited = np.array(sorted(edges), np.uint32).reshape(-1, 2).T.copy()
    counts = count_cd(citing, cited, np.array(times, np.int32), length)
    columns = (getattr(counts, name).tolist() for name in CdCounts.__slots__)
    expected = [by_sets(edges, times, paper, length) for paper in range(len(times))]
    assert list(zip(*columns, strict=True)) == expected
