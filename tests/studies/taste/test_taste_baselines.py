"""Baselines: antisymmetric, fitted on training pairs alone, on nothing that came after a paper."""

import datetime as dt
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from taste_corpora import world, write

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper
from tinsmith.studies.taste.pairs import KNOWN, Match, Pair, PairSettings, Side, Sides, Text, draw_pairs, rated_papers
from tinsmith.studies.taste.task import Baseline, Fitted, favours_a


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    corpus = write(tmp_path_factory.mktemp("taste") / "corpus", world())
    return draw_pairs(corpus, PairSettings())


def fitted(sides: Sides) -> Fitted:
    return Fitted(lambda: sides[Side.TRAIN], Text.TITLE)


def swapped(pair: Pair) -> Pair:
    return replace(pair, a=pair.b, b=pair.a, a_right=not pair.a_right)


@pytest.mark.parametrize("baseline", list(Baseline))
def test_the_other_order_gives_the_negative_and_the_same_paper(sides: Sides, baseline: Baseline) -> None:
    models, test = fitted(sides), sides[Side.TEST]
    turned = [swapped(pair) for pair in test]
    scores = models.scores(baseline, test)
    assert np.array_equal(scores, -models.scores(baseline, turned))
    assert np.array_equal(models.right(baseline, test), models.right(baseline, turned))
    assert np.array_equal(favours_a(test, scores), ~favours_a(turned, -scores))
    alone = [models.scores(baseline, [pair])[0] for pair in test]
    assert np.allclose(alone, scores, rtol=1e-12, atol=1e-12)


def test_the_order_of_training_pairs_papers_does_not_matter(sides: Sides) -> None:
    other = {**sides, Side.TRAIN: tuple(swapped(pair) for pair in sides[Side.TRAIN])}
    for baseline in Baseline:
        scores = fitted(sides).scores(baseline, sides[Side.TEST])
        assert np.allclose(scores, fitted(other).scores(baseline, sides[Side.TEST]), atol=1e-6)


def test_words_that_tell_are_found_and_swapped_labels_turn_them(sides: Sides) -> None:
    test = sides[Side.TEST]
    assert fitted(sides).right(Baseline.TFIDF, test).mean() == 1.0
    wrong = tuple(replace(pair, a_right=not pair.a_right) for pair in sides[Side.TRAIN])
    assert fitted({**sides, Side.TRAIN: wrong}).right(Baseline.TFIDF, test).mean() == 0.0


def test_equal_scores_name_the_same_paper_in_both_orders(sides: Sides) -> None:
    pairs = sides[Side.TRAIN]
    zeros = np.zeros(len(pairs))
    named = favours_a(pairs, zeros)
    assert np.array_equal(named, ~favours_a([swapped(pair) for pair in pairs], zeros))
    assert 0 < named.mean() < 1


def paper(name: str, year: int) -> Paper:
    return Paper(id=name, year=year, title=name, abstract="Two words", date=dt.date(year, 3, 5))


def test_nothing_that_came_after_is_known(tmp_path: Path) -> None:
    papers = [
        *(paper("old", 2000), paper("young", 2002), paper("x", 2003)),
        *(paper("then", 2001), paper("later", 2006), paper("end", 2010)),
    ]
    before = [("x", "old"), ("x", "young"), ("then", "old")]
    after = [("later", "x"), ("later", "old"), ("end", "young"), ("x", "later")]
    found: list[dict[str, float]] = []
    for edges in (before, before + after):
        folder = tmp_path / str(len(edges))
        with CorpusWriter(folder, source=SourceDescription(kind=SourceKind.FILES)) as writer:
            writer.add(papers)
            writer.add_edges([citing for citing, _ in edges], [cited for _, cited in edges])
        rated, _ = rated_papers(Corpus.open(folder), Match.MONTH, Text.TITLE, 3)
        known = next(one.known for one in rated if one.id == "x")
        found.append(dict(zip(KNOWN, known, strict=True)))
    assert found[0] == found[1]
    assert found[0]["references"] == pytest.approx(math.log1p(2))
    assert found[0]["share of young references"] == 0.5
    # `old` was cited once before 2003, `young` not at all.
    assert found[0]["citations of the references by then"] == pytest.approx(math.log1p(1) / 2)
    assert (found[0]["characters of the title"], found[0]["words of the abstract"]) == (1, 2)
    assert (found[0]["concepts"], found[0]["day of the month"]) == (0, 5)
