"""Pairs: thirds, gaps and windows by hand count, a split by time, and no paper twice."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from taste_corpora import Cited, world, write

from tinsmith.data.corpus import Corpus
from tinsmith.studies.taste.pairs import (
    LENGTH_SHARE,
    Length,
    Match,
    Pair,
    PairSettings,
    Preference,
    Side,
    Sides,
    Text,
    draw_pairs,
    split_years,
)
from tinsmith.types.errors import ConfigError, DataError

Build = Callable[..., Corpus]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return lambda papers, **how: write(tmp_path / "corpus", papers, **how)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write(tmp_path_factory.mktemp("taste") / "corpus", world())


def papers(pairs: tuple[Pair, ...]) -> list[str]:
    return [one.id for pair in pairs for one in (pair.a, pair.b)]


def much_and_little(pair: Pair) -> tuple[str, str]:
    much, little = sorted((pair.a, pair.b), key=lambda one: -one.citations)
    return much.id, little.id


def one_month(citations: dict[str, int], year: int, field: str | None = None) -> list[Cited]:
    return [
        Cited(id=f"{name}{year}", year=year, citations=((year + 1, count),), field=field)
        for name, count in citations.items()
    ]


def test_thirds_and_gap_by_hand(build: Build) -> None:
    # Of seven papers the thirds are two and two: e, f against a, b; 9 - 0, 6 - 1 or 9 - 1, 6 - 0.
    month = {"a": 0, "b": 1, "c": 3, "d": 4, "g": 5, "e": 6, "f": 9}
    corpus = build([*one_month(month, 2001), *one_month(month, 2005)])
    usual = PairSettings(train_before=2002, test_from=2005, test_before=2006, validation_pairs=0)
    sides = draw_pairs(corpus, replace(usual, gap=5))
    pairs = [much_and_little(pair) for pair in sides[Side.TRAIN]]
    assert sorted(much for much, _ in pairs) == ["e2001", "f2001"]
    assert sorted(little for _, little in pairs) == ["a2001", "b2001"]
    assert sorted(pair.gap for pair in sides[Side.TRAIN]) in ([5, 9], [6, 8])
    halves = draw_pairs(corpus, replace(usual, gap=1, thirds=False))
    assert sorted(papers(halves[Side.TRAIN])) == [f"{name}2001" for name in "abcefg"]
    far = draw_pairs(corpus, replace(usual, gap=6))[Side.TRAIN]
    assert sorted(pair.gap for pair in far) in ([9], [6, 8])


def test_only_citations_of_the_window_count(build: Build) -> None:
    early = ((2000, 9), (2001, 1), (2002, 2), (2004, 3), (2005, 9))
    month = [
        Cited(id="x", year=2001, citations=early, field="physics"),
        Cited(id="y", year=2001, citations=((2002, 1),), field="physics"),
        Cited(id="z", year=2001, citations=(), field="physics"),
    ]
    later = one_month({"a": 0, "b": 1, "c": 9}, 2005, field="physics")
    corpus = build([*month, *later])
    usual = PairSettings(train_before=2002, test_from=2005, validation_pairs=0)
    sides = draw_pairs(corpus, usual)
    assert [(much_and_little(one), one.gap) for one in sides[Side.TRAIN]] == [(("x", "z"), 6)]
    shorter = draw_pairs(corpus, replace(usual, window=2))
    assert [one.gap for one in shorter[Side.TRAIN]] == [3]
    # Of papers of one year the first months would have longer: that year does not count.
    by_field = draw_pairs(corpus, replace(usual, match=Match.YEAR_FIELD))
    assert [one.gap for one in by_field[Side.TRAIN]] == [5]


def test_papers_whose_window_is_not_closed_are_left_out(build: Build) -> None:
    sides = draw_pairs(build(world(), last_year=2008), PairSettings(validation_pairs=0))
    assert {pair.a.year for pair in sides[Side.TEST]} == {2004, 2005}
    assert {pair.a.year for pair in sides[Side.TRAIN]} == {2001, 2002, 2003}


def test_sides_lie_apart_in_time_and_share_no_paper(corpus: Corpus) -> None:
    settings = PairSettings(validation_pairs=4, test_from=2005)
    sides = draw_pairs(corpus, settings)
    everything = [name for side in Side for name in papers(sides[side])]
    assert len(everything) == len(set(everything))
    times = {side: {(one.year, one.month or 0) for pair in sides[side] for one in (pair.a, pair.b)} for side in Side}
    assert max(times[Side.TRAIN]) < min(times[Side.VALIDATION])
    assert max(times[Side.VALIDATION]) < min(times[Side.TEST])
    # Three pairs a month: four of validation take the last two months of training.
    assert times[Side.VALIDATION] <= {(2004, 5), (2004, 9)}
    assert [len(sides[side]) for side in Side] == [30, 4, 18]
    assert all(pair.a.month == pair.b.month for side in Side for pair in sides[side])


def test_pairs_do_not_depend_on_the_order_of_the_papers(corpus: Corpus, tmp_path: Path) -> None:
    again = write(tmp_path / "again", world()[::-1])
    assert draw_pairs(again, PairSettings()) == draw_pairs(corpus, PairSettings())
    assert draw_pairs(corpus, PairSettings(draw_seed=1)) != draw_pairs(corpus, PairSettings())


def test_caps_keep_the_first_of_the_drawn_order(corpus: Corpus) -> None:
    every = draw_pairs(corpus, PairSettings())
    few = draw_pairs(corpus, PairSettings(pairs=5, test_pairs=2))
    assert few[Side.TRAIN] == every[Side.TRAIN][:5]
    assert few[Side.TEST] == every[Side.TEST][:2]


def test_a_field_and_year_can_be_matched(corpus: Corpus) -> None:
    sides = draw_pairs(corpus, PairSettings(match=Match.YEAR_FIELD, validation_pairs=1))
    for side in Side:
        assert sides[side]
        assert all((p.a.year, p.a.field) == (p.b.year, p.b.field) for p in sides[side])


def test_lengths_can_be_matched(corpus: Corpus) -> None:
    sides = draw_pairs(corpus, PairSettings(length=Length.MATCHED))
    for pair in sides[Side.TRAIN]:
        first, second = (len(one.shown(Text.TITLE)) for one in (pair.a, pair.b))
        assert abs(first - second) <= LENGTH_SHARE * max(first, second)
    assert sides[Side.TRAIN]


def test_a_shuffled_preference_hangs_on_names_alone(tmp_path: Path) -> None:
    def turned(one: Cited) -> Cited:
        number = int(one.id[-1])
        count = number % 3 if number >= 6 else (7 + number if number < 3 else 3)
        return Cited(id=one.id, year=one.year, month=one.month, citations=((one.year + 1, count),))

    usual = write(tmp_path / "usual", world())
    other = write(tmp_path / "other", [turned(one) for one in world()])

    def answers(corpus: Corpus, preference: Preference) -> dict[frozenset[str], str]:
        sides: Sides = draw_pairs(corpus, PairSettings(thirds=True, preference=preference))
        return {
            frozenset((pair.a.id, pair.b.id)): (pair.a if pair.a_right else pair.b).id
            for side in Side
            for pair in sides[side]
        }

    cited = answers(usual, Preference.CITED), answers(other, Preference.CITED)
    drawn = answers(usual, Preference.SHUFFLED), answers(other, Preference.SHUFFLED)
    shared = drawn[0].keys() & drawn[1].keys()
    assert len(shared) > 10
    assert all(drawn[0][pair] == drawn[1][pair] for pair in shared)
    assert all(cited[0][pair] != cited[1][pair] for pair in shared)
    assert 0.25 < sum(cited[0][pair] == drawn[0][pair] for pair in drawn[0]) / len(drawn[0]) < 0.75


@pytest.mark.parametrize(
    ("how", "settings", "field"),
    [
        ({"dated": False}, PairSettings(), "match"),
        ({}, PairSettings(window=12), "window"),
        ({}, PairSettings(gap=100), "train_before"),
        ({}, PairSettings(test_from=2001), "train_before"),
    ],
)
def test_what_a_corpus_does_not_have_is_refused(
    build: Build, how: dict[str, bool], settings: PairSettings, field: str
) -> None:
    with pytest.raises(DataError) as refused:
        draw_pairs(build(world(), **how), settings)
    assert refused.value.field == field


def test_a_corpus_without_fields_is_refused(build: Build) -> None:
    corpus = build(one_month({"a": 0, "b": 1, "c": 9}, 2005))
    with pytest.raises(DataError) as refused:
        draw_pairs(corpus, PairSettings(match=Match.YEAR_FIELD))
    assert refused.value.field == "match"


def test_years_that_are_not_told_hang_on_the_last_closed_one() -> None:
    assert split_years(2000, PairSettings()) == (1999, 1999, 2001)
    with pytest.raises(ConfigError):
        split_years(2000, PairSettings(test_from=2001))
    with pytest.raises(ConfigError):
        PairSettings(train_before=1999, test_from=1998)


def test_a_paper_of_2050_moves_no_side(build: Build, tmp_path: Path) -> None:
    settings = PairSettings(gap=1)
    usual = draw_pairs(build(world()), settings)
    odd = write(tmp_path / "odd", [*world(), Cited(id="z", year=2050, citations=())])
    assert draw_pairs(odd, settings) == usual
