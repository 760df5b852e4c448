"""Journal pairs: the closed form against every shuffle, percentiles against numpy, and what may not change a bit."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, permutations, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from tinsmith.data.baselines.scores import legacy_score, score_frame, year_percentile
from tinsmith.data.indices.atypicality import Atypicality, Null, NullModel, pair_scores, score_atypicality
from tinsmith.data.indices.journal_pairs import JournalReferences
from tinsmith.ops.extension import configure

Reference = tuple[str | None, int]
"""The cited paper's journal and year."""
Pair = tuple[str, str]

YEAR = 2000
CLOSED = Null()


def switching(nulls: int, seed: int = 0) -> Null:
    return Null(model=NullModel.SWITCHING, nulls=nulls, seed=seed)


def references(papers: Sequence[Sequence[Reference]], years: Sequence[int] | None = None) -> JournalReferences:
    """Lay out citing papers (ascending `years`, default YEAR) after the papers they cite, each cited once."""
    cited = sorted(
        (year, paper, place, journal or "", journal)
        for paper, listed in enumerate(papers)
        for place, (journal, year) in enumerate(listed)
    )
    first = len(cited)
    edges = sorted((first + paper, row) for row, (_, paper, *_) in enumerate(cited))
    citing_rows, cited_rows = np.array(edges, np.uint32).reshape(-1, 2).T
    return JournalReferences.of(
        np.array([*(row[0] for row in cited), *(years or [YEAR] * len(papers))], np.int32),
        pl.Series([*(row[-1] for row in cited), *([None] * len(papers))], dtype=pl.String),
        citing_rows.copy(),
        cited_rows.copy(),
    )


def z_of(papers: Sequence[Sequence[Reference]], null: Null = CLOSED) -> dict[Pair, tuple[int, float | None]]:
    """Observed count and z of every pair that occurs."""
    rows = pair_scores(references(papers), null).iter_rows(named=True)
    return {(row["journal_a"], row["journal_b"]): (row["observed"], row["z"]) for row in rows}


def expected(observed: int, z: float) -> float:
    """The null's mean E that gives z = (observed - E) / sqrt(E)."""
    return ((-z + (z * z + 4 * observed) ** 0.5) / 2) ** 2


ONE_YEAR = [[("A", 0), ("A", 0), ("B", 0)], [("A", 0), ("B", 0), ("B", 0)], [("A", 0), ("C", 0)]]
TWO_YEARS = [[("A", 0), ("A", 1), ("B", 0)], [("A", 0), ("B", 1), ("B", 1)], [("A", 1), ("C", 0)]]


@pytest.mark.parametrize(
    ("papers", "means"),
    [
        (ONE_YEAR, {"AA": 1.5, "AB": 3.0, "AC": 1.0, "BB": 0.75}),
        (TWO_YEARS, {"AA": 19 / 12, "AB": 2.875, "AC": 23 / 24, "BB": 19 / 24}),
    ],
    ids=["one cited year", "two cited years"],
)
def test_closed_form_by_hand(papers: list[list[Reference]], means: dict[str, float]) -> None:
    scored = z_of(papers)
    counts = {"AA": 1, "AB": 4, "BB": 1, "AC": 1}
    assert {a + b: observed for (a, b), (observed, _) in scored.items()} == counts
    for (a, b), (observed, z) in scored.items():
        assert z == pytest.approx((observed - means[a + b]) / means[a + b] ** 0.5, abs=1e-12)


def test_z_of_the_common_pair_by_hand() -> None:
    assert z_of(ONE_YEAR)["A", "B"][1] == 1 / 3**0.5


def every_shuffle(papers: Sequence[Sequence[Reference]]) -> list[Counter[Pair]]:
    """Count the pairs of every network: all orders of the journals of each cited year."""
    places: dict[int, list[tuple[int, int]]] = {}
    for paper, listed in enumerate(papers):
        for place, (_, year) in enumerate(listed):
            places.setdefault(year, []).append((paper, place))
    strata = [[papers[p][i][0] for p, i in spots] for spots in places.values()]
    networks = []
    for orders in product(*(permutations(journals) for journals in strata)):
        shuffled = [[""] * len(listed) for listed in papers]
        for spots, journals in zip(places.values(), orders, strict=True):
            for (paper, place), journal in zip(spots, journals, strict=True):
                shuffled[paper][place] = journal or ""
        pairs = (tuple(sorted(pair)) for listed in shuffled for pair in combinations(listed, 2))
        networks.append(Counter(pairs))
    return networks


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 2)), max_size=4), min_size=1, max_size=3).filter(
        lambda papers: sum(map(len, papers)) <= 7
    )
)
def test_closed_form_is_the_mean_over_all_shuffles(papers: list[list[Reference]]) -> None:
    networks = every_shuffle(papers)
    for pair, (observed, z) in z_of(papers).items():
        mean = sum(network[pair] for network in networks) / len(networks)
        assert z is not None
        assert expected(observed, z) == pytest.approx(mean, abs=1e-9)


def test_switching_approaches_mean_and_deviation_of_all_shuffles() -> None:
    networks = every_shuffle(TWO_YEARS)
    for pair, (observed, z) in z_of(TWO_YEARS, switching(20_000)).items():
        counts = np.array([network[pair] for network in networks])
        assert z == pytest.approx((observed - counts.mean()) / counts.std(), abs=0.03)


def test_a_pair_that_no_network_changes_is_left_out_and_counted() -> None:
    # X and Y are alone in their years, so they meet in every network.
    papers = [[("X", 0), ("Y", 1)], [("A", 4), ("C", 4)], [("A", 4), ("A", 4), ("X", 4)]]
    scored = references(papers)
    scores = score_atypicality(scored, switching(50))
    undefined = pair_scores(scored, switching(50)).filter(pl.col("z").is_null())
    assert undefined.select("journal_a", "journal_b").rows() == [("X", "Y")]
    assert scores.undefined_cells == 1
    assert (scores.pairs[-3], np.isnan(scores.z_p10[-3])) == (1, True)
    closed = score_atypicality(scored, CLOSED)
    assert np.isnan(closed.z_p10[-3:]).tolist() == np.isnan(closed.z_median[-3:]).tolist() == [True, False, False]


def test_a_paper_alone_in_its_year_has_pairs_and_no_scores() -> None:
    scores = score_atypicality(references([[("A", 0), ("B", 0), ("C", 1)], *ONE_YEAR], [YEAR, *[YEAR + 1] * 3]), CLOSED)
    assert scores.pairs[-4:].tolist() == [3, 3, 3, 1]
    assert np.isnan(scores.z_p10[-4:]).tolist() == np.isnan(scores.z_median[-4:]).tolist() == [True, *[False] * 3]


def random_papers(count: int, seed: int, journals: int = 60, mean: float = 16.0) -> list[list[Reference]]:
    """Papers of six fields that cite their own journals more often than others'."""
    rng = np.random.default_rng(seed)
    papers = []
    for _ in range(count):
        length = rng.poisson(mean)
        own = rng.integers(0, 6)
        field = np.where(rng.random(length) < 0.7, own, rng.integers(0, 6, length))
        within = (rng.random(length) ** 2 * (journals // 6)).astype(int)
        years = YEAR - 1 - (rng.exponential(4.0, length)).astype(int)
        papers.append([(f"J{6 * w + f:02d}", y) for f, w, y in zip(field, within, years.tolist(), strict=True)])
    return papers


@pytest.mark.parametrize("null", [CLOSED, switching(10)], ids=["closed", "switching"])
def test_percentiles_are_numpys(null: Null) -> None:
    papers = random_papers(150, seed=4, mean=20.0)
    scored = references(papers)
    z = {pair: np.nan if s is None else s for pair, (_, s) in z_of(papers, null).items()}
    scores = score_atypicality(scored, null)
    ours = np.stack([scores.z_median, scores.z_p10], 1)[-len(papers) :]
    for row, listed in zip(ours, papers, strict=True):
        journals = sorted(journal or "" for journal, _ in listed)
        values = np.array([z[pair] for pair in combinations(journals, 2)])
        values = values[~np.isnan(values)]
        theirs = np.percentile(values, [50, 10]) if len(values) else np.full(2, np.nan)
        assert row.tobytes() == theirs.tobytes()


def test_what_makes_a_pair() -> None:
    papers = [[("A", 0), ("A", 0)], [("A", 0), (None, 0)], [("C", 0)], [], [("A", 0), ("B", 1)]]
    scores = score_atypicality(references(papers), CLOSED)
    assert scores.pairs[-5:].tolist() == [1, 0, 0, 0, 1]
    assert np.isnan(scores.z_median[-5:]).tolist() == [False, True, True, True, False]


def test_a_corpus_without_journals_has_no_scores() -> None:
    scores = score_atypicality(references([[(None, 0), (None, 1)]]), CLOSED)
    assert (scores.cells, scores.pairs.tolist()) == (0, [0, 0, 0])


def content(scores: Atypicality) -> bytes:
    return scores.z_median.tobytes() + scores.z_p10.tobytes() + scores.pairs.tobytes()


@pytest.mark.parametrize("null", [CLOSED, switching(5)], ids=["closed", "switching"])
def test_threads_change_no_bit(null: Null) -> None:
    scored = references(random_papers(200, seed=5))
    seen: set[bytes] = set()
    for number in (1, 2, 4):
        configure(threads=number)
        seen.add(content(score_atypicality(scored, null)))
    assert len(seen) == 1


def tail(scores: Atypicality, count: int) -> list[NDArray[np.generic]]:
    return [scores.z_median[-count:], scores.z_p10[-count:], scores.pairs[-count:]]


def test_other_years_and_their_journals_change_no_bit() -> None:
    papers = random_papers(80, seed=6)
    # Journals of names that sort before all others, and papers of an earlier year.
    others = [[(f"A{i}", 1950 + i), ("J00", 1999)] for i in range(9)]
    alone = score_atypicality(references(papers), CLOSED)
    among = score_atypicality(references(others + papers, [1999] * 9 + [YEAR] * 80), CLOSED)
    for a, b in zip(tail(alone, 80), tail(among, 80), strict=True):
        assert a.tobytes() == b.tobytes()


def test_pooled_years_are_one_block() -> None:
    papers = random_papers(60, seed=7)
    years = [2000] * 30 + [2001] * 30
    pooled = score_atypicality(references(papers, years), CLOSED, pool_years=5)
    one_year = score_atypicality(references(papers), CLOSED)
    apart = score_atypicality(references(papers, years), CLOSED)
    assert content(pooled) == content(one_year) != content(apart)
    table = pair_scores(references(papers, years), CLOSED, pool_years=5)
    assert table["year"].unique().to_list() == [2000]


def test_the_seed_decides_the_networks() -> None:
    scored = references(random_papers(60, seed=8))
    first, again, other = (content(score_atypicality(scored, switching(10, seed))) for seed in (0, 0, 1))
    assert first == again != other


def test_closed_form_ranks_papers_as_many_networks_do() -> None:
    scored = references(random_papers(1200, seed=9))
    closed, drawn = (score_atypicality(scored, null) for null in (CLOSED, switching(200)))
    for name, least in (("z_p10", 0.99), ("z_median", 0.98)):
        a, b = getattr(closed, name), getattr(drawn, name)
        both = ~np.isnan(a) & ~np.isnan(b)
        assert spearmanr(a[both], b[both]).statistic >= least


@pytest.mark.parametrize(
    ("z_p10", "z_median", "novelty", "conventionality"),
    [
        (-20, 50, 0.9997, 0.9997),
        (-5, 1, 0.9933, 0.7311),
        (0, 5, 0.5, 0.9933),
        (3, 20, 0.0474, 0.9997),
        (-0.5, 0.2, 0.6225, 0.5498),
        (-2, 2, 0.8808, 0.8808),
    ],
)
def test_legacy_scores(z_p10: float, z_median: float, novelty: float, conventionality: float) -> None:
    frame = score_frame(np.zeros(1, np.int32), np.array([float(z_median)]), np.array([float(z_p10)]))
    scores = (frame["novelty_score"][0], frame["conventionality_score"][0])
    assert tuple(round(score, 4) for score in scores) == (novelty, conventionality)


def test_legacy_scores_are_the_sigmoid() -> None:
    z = np.linspace(-9, 9, 4001)
    exact = [1 / (1 + math.exp(-min(8.0, max(-8.0, value)))) for value in z.tolist()]
    np.testing.assert_allclose(legacy_score(z), exact, rtol=1e-15)
    assert (np.diff(legacy_score(np.linspace(-8, 8, 1001))) > 0).all()


def test_lower_z_is_never_less_novel() -> None:
    z = np.sort(np.random.default_rng(0).normal(0, 6, 500))
    frame = score_frame(np.zeros(500, np.int32), z, z)
    for name in ("novelty_score", "novelty_percentile"):
        assert (np.diff(frame[name].to_numpy()) <= 0).all()
    for name in ("conventionality_score", "conventionality_percentile"):
        assert (np.diff(frame[name].to_numpy()) >= 0).all()


def test_undefined_z_has_no_score() -> None:
    z = np.array([1.0, np.nan, 2.0])
    frame = score_frame(np.zeros(3, np.int32), z, z)
    assert frame.null_count().row(0) == (1, 1, 1, 1)
    assert all(frame[name][1] is None for name in frame.columns)


def test_percentiles_are_mean_ranks_within_a_year() -> None:
    rng = np.random.default_rng(1)
    years = np.repeat(np.array([1990, 1991, 1992], np.int32), [40, 1, 60])
    values = rng.integers(0, 12, 101).astype(np.float64)
    values[rng.random(101) < 0.1] = np.nan
    values[40] = 3.0
    ours = year_percentile(years, values)
    for year in (1990, 1992):
        rows = (years == year) & ~np.isnan(values)
        ranks = rankdata(values[rows], "average")
        np.testing.assert_array_equal(ours[rows], (ranks - 1) / (rows.sum() - 1))
    assert ours[40] == 0.5
    assert np.isnan(ours).tolist() == np.isnan(values).tolist()
