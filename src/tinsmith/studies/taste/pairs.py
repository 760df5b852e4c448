"""Pairs of papers of one time, one of them cited more than the other, split by time: training, validation, test.

No paper stands in two pairs, and a time belongs to one side alone. The order of a side is drawn by the names of its
papers, so that neither files nor rows decide it. Windows of citations are calendar years, closed where the corpus
reaches the last of them. Where pairs are of one month, what is left of the year of publication counts too: it is
equally long for both. Of one year alone it is not, and does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.study.keys import at_least
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.seeds import derive

if TYPE_CHECKING:
    from tinsmith.data.corpus import Corpus


class Match(StrEnum):
    """Properties that the two papers of a pair have in common."""

    MONTH = "month"
    YEAR_FIELD = "year_field"


class Text(StrEnum):
    """Parts of a paper that are shown."""

    TITLE = "title"
    ABSTRACT = "abstract"


class Length(StrEnum):
    """Treatment of the lengths of a pair's two texts."""

    ANY = "any"
    MATCHED = "matched"


class Preference(StrEnum):
    """Rule by which one paper of a pair is the right answer."""

    CITED = "cited"
    SHUFFLED = "shuffled"


class Answers(StrEnum):
    """The form of an answer."""

    LETTER = "letter"
    JSON = "json"


class Side(StrEnum):
    """The parts of the split by time."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """Which pairs are made of a corpus, and how they are split by time."""

    match: Match = Match.MONTH
    """Common to a pair: month, or year_field."""
    window: int = 3
    """Calendar years after publication whose citations count."""
    thirds: bool = True
    """The upper against the lower third of a matched group."""
    gap: int = 3
    """Least difference of citations."""
    text: Text = Text.TITLE
    """Shown text: title, or abstract (title and abstract)."""
    train_before: int = 0
    """Training ends before this year; 0: test_from."""
    test_from: int = 0
    """The test begins; 0: two years before its end."""
    test_before: int = 0
    """The test ends; 0: where windows are still closed."""
    pairs: int = 10_000
    """Most pairs to train on; each is asked in both orders."""
    validation_pairs: int = 200
    """Most of the last stretch of training."""
    test_pairs: int = 2_000
    """Most pairs of the later years."""
    draw_seed: int = 0
    """Seed of who meets whom, and which comes first."""
    length: Length = Length.ANY
    """matched: both texts of a pair are equally long; or any."""
    preference: Preference = Preference.CITED
    """shuffled: the right answer is drawn; or cited."""

    def __post_init__(self) -> None:
        at_least(1, window=self.window, gap=self.gap, pairs=self.pairs, test_pairs=self.test_pairs)
        at_least(0, validation_pairs=self.validation_pairs)
        for key, later in (("train_before", "test_from"), ("test_from", "test_before")):
            first, second = getattr(self, key), getattr(self, later)
            if min(first, second) < 0 or (
                first and second and (first > second or (first == second and key == "test_from"))
            ):
                what = "the years are not in order: training, then the test"
                raise ConfigError(what, field=key, value=first, allowed=f"0, or a year not after {later} = {second}")


LETTERS: Final = ("A", "B")
"""The first paper, and the second."""


KNOWN: Final = (
    "references",
    "share of young references",
    "citations of the references by then",
    "characters of the title",
    "words of the abstract",
    "concepts",
    "day of the month",
)
"""Numbers that the corpus has of a paper on the day it comes out; authors are in no corpus."""


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


def rated_papers(corpus: Corpus, match: Match, text: Text, window: int) -> tuple[list[RatedPaper], int]:
    """Read a corpus's papers with title (abstract, where shown) and a closed window; and the last year with such."""
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
    key, texts = "date" if match is Match.MONTH else "field", ("title", "abstract")[: 1 + (text is Text.ABSTRACT)]
    papers = [
        RatedPaper(
            id=one["id"],
            year=one["year"],
            month=one["date"] and one["date"].month,
            field=one["field"],
            title=one["title"],
            abstract=one["abstract"],
            citations=int(citations[row]),
            known=tuple(known[row].tolist()),
        )
        for row, one in enumerate(frame.iter_rows(named=True))
        if one["year"] <= last_year and one[key] is not None and all((one[name] or "").strip() for name in texts)
    ]
    if not papers:
        what = "no paper's window of citations is closed in this corpus"
        allowed = f"less than the years that the corpus spans, which end with {last_year + window}"
        raise DataError(what, field="window", value=window, allowed=allowed)
    return papers, last_year


def _require(corpus: Corpus, match: Match, missing: int) -> None:
    if missing < corpus.card.papers:
        return
    other = Match.YEAR_FIELD if match is Match.MONTH else Match.MONTH
    what = "dates" if match is Match.MONTH else "fields"
    what = f"no paper of this corpus has what pairs are to be matched by: {what}"
    fix = f"match={other.value}, if it has that; or a corpus with {what}"
    raise DataError(what, field="match", value=match.value, fix=fix)


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


LENGTH_SHARE: Final = 0.1
"""Texts of matched length differ by at most this share of the longer one's characters."""
_TEST_YEARS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two papers in a drawn order, and which of them is the right answer."""

    a: RatedPaper
    b: RatedPaper
    a_right: bool

    @property
    def id(self) -> str:
        """Both names; their order is drawn, and says nothing."""
        return f"{self.a.id}-{self.b.id}"

    @property
    def gap(self) -> int:
        """Citations in the window that one has more than the other."""
        return abs(self.a.citations - self.b.citations)


Sides = Mapping[Side, tuple[Pair, ...]]
P = TypeVar("P", RatedPaper, Pair)
_Time = tuple[int, int]
"""A year, and a month or 0."""


def draw_pairs(corpus: Corpus, settings: PairSettings) -> Sides:
    """Return the pairs of a corpus, by side."""
    rated, last_year = rated_papers(corpus, settings.match, settings.text, settings.window)
    train_before, test_from, test_before = split_years(last_year, settings)
    train = _by_time(rated, settings, 0, train_before)
    test = _by_time(rated, settings, test_from, test_before)
    validation: list[Pair] = []
    while len(validation) < settings.validation_pairs and len(train) > 1:
        validation += train.pop(max(train))
    taken = {
        Side.TRAIN: (chain(*train.values()), settings.pairs),
        Side.VALIDATION: (validation, settings.validation_pairs),
        Side.TEST: (chain(*test.values()), settings.test_pairs),
    }
    sides = {side: tuple(_drawn(some, "takes", settings.draw_seed)[:most]) for side, (some, most) in taken.items()}
    for side, key, year in ((Side.TRAIN, "train_before", train_before), (Side.TEST, "test_from", test_from)):
        if not sides[side]:
            what = f"no two papers of these years can be paired: {side.value}"
            allowed = f"years up to {last_year}, whose windows are closed"
            fix = "a smaller gap, thirds=false, or other years"
            raise DataError(what, field=key, value=year, allowed=allowed, fix=fix)
    return MappingProxyType(sides)


def split_years(last_year: int, settings: PairSettings) -> tuple[int, int, int]:
    """Return the years before which training ends, and from which and before which the test is.

    Those that no setting names hang on the last year whose windows are closed.
    """
    before = min(settings.test_before or last_year + 1, last_year + 1)
    begin = settings.test_from or before - _TEST_YEARS
    train_before = settings.train_before or begin
    if not train_before <= begin < before:
        what = "the years are not in order: training, then the test, as far as windows are closed"
        raise ConfigError(what, field="test_from", value=begin, allowed=f"{train_before} to {last_year}")
    return train_before, begin, before


def pairs_of(group: Sequence[RatedPaper], settings: PairSettings) -> list[Pair]:
    """Pair the papers of one matched group: the much cited with the little cited."""
    seed = settings.draw_seed
    ranked = sorted(_drawn(group, "rank", seed), key=lambda one: one.citations)
    share = len(ranked) // (3 if settings.thirds else 2)
    lower, upper = ranked[:share], ranked[len(ranked) - share :]
    meeting = (
        _of_one_length(upper, lower, settings.text)
        if settings.length is Length.MATCHED
        else zip(_drawn(upper, "meets", seed), _drawn(lower, "meets", seed), strict=True)
    )
    return [
        _pair(much, little, settings) for much, little in meeting if much.citations - little.citations >= settings.gap
    ]


def _pair(much: RatedPaper, little: RatedPaper, settings: PairSettings) -> Pair:
    """Put two papers in a drawn order; where preferences are shuffled, the answer is drawn by their names alone."""
    low, high = sorted((much, little), key=lambda one: one.id)
    turned = derive(settings.draw_seed, "order", low.id, high.id) % 2 == 1
    a, b = (high, low) if turned else (low, high)
    if settings.preference is Preference.SHUFFLED:
        drawn = derive(settings.draw_seed, "preference", low.id, high.id) % 2 == 1
        return Pair(a=a, b=b, a_right=drawn)
    return Pair(a=a, b=b, a_right=a is much)


def _by_time(rated: Sequence[RatedPaper], settings: PairSettings, first: int, before: int) -> dict[_Time, list[Pair]]:
    """Return the pairs of the years from the first on, by time; times without a pair are left out."""
    groups: dict[tuple[_Time, str], list[RatedPaper]] = {}
    for one in rated:
        if first <= one.year < before:
            by_month = settings.match is Match.MONTH
            time = (one.year, (one.month or 0) if by_month else 0)
            groups.setdefault((time, "" if by_month else str(one.field)), []).append(one)
    found: dict[_Time, list[Pair]] = {}
    for time, place in sorted(groups):
        pairs = pairs_of(groups[time, place], settings)
        if pairs:
            found.setdefault(time, []).extend(pairs)
    return found


def _drawn(some: Iterable[P], what: str, seed: int) -> list[P]:
    """Return papers or pairs in an order that is drawn by their names."""
    return sorted(some, key=lambda one: (derive(seed, what, one.id), one.id))


def _of_one_length(
    upper: Sequence[RatedPaper], lower: Sequence[RatedPaper], text: Text
) -> list[tuple[RatedPaper, RatedPaper]]:
    """Pair what is equally long, the nearest first: going through sorted lists would make one side always longer."""
    sizes = {one.id: len(one.shown(text)) for one in (*upper, *lower)}
    near = [
        (abs(sizes[much.id] - sizes[little.id]), i, j)
        for i, much in enumerate(upper)
        for j, little in enumerate(lower)
        if abs(sizes[much.id] - sizes[little.id]) <= LENGTH_SHARE * max(sizes[much.id], sizes[little.id])
    ]
    found: list[tuple[RatedPaper, RatedPaper]] = []
    much_left, little_left = set(range(len(upper))), set(range(len(lower)))
    for _, i, j in sorted(near):
        if i in much_left and j in little_left:
            much_left.remove(i)
            little_left.remove(j)
            found.append((upper[i], lower[j]))
    return found
