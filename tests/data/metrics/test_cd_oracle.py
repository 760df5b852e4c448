"""The CD index against the `cdindex` package and against sets, bit for bit."""

import numpy as np
import pytest
from corpora import Hepth, hepth, peer, random_edges
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tinsmith.data.indices.cd import CdCounts, cd_frame, count_cd
from tinsmith.data.indices.windows import UNDATED
from tinsmith.ops.extension import configure

pytestmark = pytest.mark.whole

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


def test_random_graph_by_day() -> None:
    citing, cited = random_edges(PAPERS, seed=9)
    days = np.sort(np.random.default_rng(9).integers(0, 11_000, PAPERS)).astype(np.int32)
    graph = peer(days.tolist(), citing, cited)
    assert_equals_peer(count_cd(citing, cited, days, 1826), graph, 1826)


@pytest.fixture(scope="module")
def real() -> Hepth:
    return hepth()


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


@settings(max_examples=300, deadline=None, derandomize=True)
@given(graphs())
def test_any_graph_counts_as_the_definition_reads(drawn: tuple[set[tuple[int, int]], list[int], int]) -> None:
    edges, times, length = drawn
    citing, cited = np.array(sorted(edges), np.uint32).reshape(-1, 2).T.copy()
    counts = count_cd(citing, cited, np.array(times, np.int32), length)
    columns = (getattr(counts, name).tolist() for name in CdCounts.__slots__)
    expected = [by_sets(edges, times, paper, length) for paper in range(len(times))]
    assert list(zip(*columns, strict=True)) == expected
