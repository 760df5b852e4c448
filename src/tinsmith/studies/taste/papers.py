"""The papers that pairs are made of: texts, citations in the window, and what was known when they came out.

Windows are calendar years, closed where the corpus reaches the last of them. Where pairs are of one month, what is left
of the year of publication counts too: it is equally long for both. Of one year alone it is not, and does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.studies.taste.settings import Match, Text
from tinsmith.types.errors import DataError

if TYPE_CHECKING:
    from tinsmith.data.corpus import Corpus

KNOWN: Final = (
    "references",
    "share of young references",
    "citations of the references by then",
    "characters of the title",
    "words of the abstract",
    "concepts",
    "day of the month",
)
"""What the corpus knows of a paper on the day it comes out, as numbers; authors are in no corpus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedPaper:
    """One paper that can stand in a pair."""

    id: str
    year: int
    month: int | None
    field: str | None
    title: str
    abstract: str | None
    citations: int
    """In the window."""
    known: tuple[float, ...]
    """As `KNOWN` names them."""

    def shown(self, text: Text) -> str:
        """Return what a reader sees of it."""
        title = " ".join(self.title.split())
        if text is Text.TITLE:
            return title
        return f"{title}\n{' '.join((self.abstract or '').split())}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedPapers:
    """The papers of a corpus whose window is closed, in the corpus's order, and the last year that has such."""

    papers: tuple[RatedPaper, ...]
    last_year: int


def rated_papers(corpus: Corpus, match: Match, text: Text, window: int) -> RatedPapers:
    """Read a corpus's papers with title (and abstract, where it is shown) and a closed window."""
    frame = corpus.papers("id", "title", "abstract", "year", "date", "field", "concepts")
    _require(corpus, match, frame["date" if match is Match.MONTH else "field"].null_count())
    years = frame["year"].to_numpy().astype(np.int64)
    last_year = corpus.card.last_year - window
    citing, cited = (ends.astype(np.int64) for ends in corpus.edges())
    later = years[citing] - years[cited]
    first = 0 if match is Match.MONTH else 1
    counted = cited[(later >= first) & (later <= window)]
    citations = np.bincount(counted, minlength=len(years))
    known = np.column_stack(
        [
            _of_references(years, citing, cited),
            frame["title"].str.len_chars().fill_null(0).to_numpy(),
            frame["abstract"].str.split(" ").list.len().fill_null(0).to_numpy(),
            frame["concepts"].list.len().fill_null(0).to_numpy(),
            frame["date"].dt.day().fill_null(0).to_numpy(),
        ]
    ).astype(np.float64)
    found: list[RatedPaper] = []
    for row, one in enumerate(frame.iter_rows(named=True)):
        place = one["date"] if match is Match.MONTH else one["field"]
        if one["year"] > last_year or place is None or not (one["title"] or "").strip():
            continue
        if text is Text.ABSTRACT and not (one["abstract"] or "").strip():
            continue
        found.append(
            RatedPaper(
                id=one["id"],
                year=one["year"],
                month=None if one["date"] is None else one["date"].month,
                field=one["field"],
                title=one["title"],
                abstract=one["abstract"],
                citations=int(citations[row]),
                known=tuple(known[row].tolist()),
            )
        )
    if not found:
        raise DataError(
            "no paper's window of citations is closed in this corpus",
            field="window",
            value=window,
            allowed=f"less than the years that the corpus spans, which end with {last_year + window}",
        )
    return RatedPapers(papers=tuple(found), last_year=last_year)


def _require(corpus: Corpus, match: Match, missing: int) -> None:
    if missing < corpus.card.papers:
        return
    other = Match.YEAR_FIELD if match is Match.MONTH else Match.MONTH
    what = "dates" if match is Match.MONTH else "fields"
    raise DataError(
        f"no paper of this corpus has what pairs are to be matched by: {what}",
        field="match",
        value=match.value,
        fix=f"match={other.value}, if it has that; or a corpus with {what}",
    )


def _of_references(
    years: NDArray[np.int64], citing: NDArray[np.int64], cited: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return (papers, 3): the first three of `KNOWN`; only references that are not later than the paper.

    What a reference was cited by then are its citations of the years before the paper's.
    """
    papers = len(years)
    before = years[cited] <= years[citing]
    citing, cited = citing[before], cited[before]
    count = np.bincount(citing, minlength=papers)
    young = np.bincount(citing, weights=years[citing] - years[cited] <= 1, minlength=papers)
    by_then = np.bincount(citing, weights=_cited_before(years, citing, cited), minlength=papers)
    least = np.maximum(count, 1)
    return np.column_stack([np.log1p(count), young / least, by_then / least])


def _cited_before(years: NDArray[np.int64], citing: NDArray[np.int64], cited: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return, for each edge, log(1 + citations of the cited paper in the years before the citing paper's)."""
    if not len(citing):
        return np.zeros(0)
    span = int(years.max()) - int(years.min()) + 2
    year_of = years[citing] - int(years.min())
    keys = np.sort(cited * span + year_of)
    first = np.searchsorted(keys, cited * span)
    return np.log1p((np.searchsorted(keys, cited * span + year_of) - first).astype(np.float64))
