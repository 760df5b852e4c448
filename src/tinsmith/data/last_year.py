"""Last year of a corpus, up to which windows are closed, unaffected by papers with later dates.

Every large source has some papers dated decades ahead. They stay in the corpus, but do not show how far it reaches. So
the last year ignores:

1. Papers dated after the year in which the source last changed any record, if it reports that: it cannot know them. 2.
The newest years, as long as one has less than a hundredth of the papers of the busiest of the five years before it. 3.
What follows more than ten empty years, if it is at most a quarter of what comes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tinsmith.data.losses import SHARE

_BEFORE = 5
_GAP = 10
_QUARTER = 0.25


def year_changed(updates: Iterable[str | None]) -> int | None:
    """Return the latest year among the times of changes; None if there are none."""
    return max((int(one[:4]) for one in updates if one and one[:4].isdecimal() and one[4:5] in ("", "-")), default=None)


def last_year(papers: Mapping[int, int], changed: int | None = None) -> int:
    """Return the last year of a non-empty corpus, from its papers per year.

    >>> last_year({2019: 1, 2020: 1, 2021: 1, 2022: 1, 2050: 1})
    2022
    >>> last_year({2020: 900, 2021: 1000, 2022: 1100, 2023: 4})
    2022
    """
    years = sorted(year for year, count in papers.items() if count)
    known = [year for year in years if changed is None or year <= changed]
    return _dense(papers, _connected(papers, known or years))


def _connected(papers: Mapping[int, int], years: list[int]) -> list[int]:
    """Return the years before the first long gap that few papers follow."""
    total = sum(papers[year] for year in years)
    before = 0
    for place, year in enumerate(years[:-1], 1):
        before += papers[year]
        if years[place] - year > _GAP + 1 and total - before <= _QUARTER * before:
            return years[:place]
    return years


def _dense(papers: Mapping[int, int], years: list[int]) -> int:
    while len(years) > 1:
        busiest = max(papers.get(years[-1] - back, 0) for back in range(1, _BEFORE + 1))
        if papers[years[-1]] >= SHARE * busiest:
            break
        years = years[:-1]
    return years[-1]
