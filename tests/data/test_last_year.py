"""The end of a corpus does not move with papers that are dated after it."""

from pathlib import Path

import polars as pl
import pytest
from building import write

from tinsmith.data.corpus import Corpus
from tinsmith.data.last_year import last_year, year_changed
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import MetricSettings
from tinsmith.data.paper import Paper


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
