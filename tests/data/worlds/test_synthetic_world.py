"""The synthetic world's papers, references and dirt: what was drawn, and that it is the same everywhere."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tinsmith.data.sources.world.citations import Citations, draw_citations
from tinsmith.data.sources.world.dirt import draw_dirt
from tinsmith.data.sources.world.papers import CAUSES, YEARS, WorldPapers, draw_papers
from tinsmith.data.sources.world.spec import PRESETS, Cause, Preset, WorldSpec, scaled
from tinsmith.types.errors import ConfigError

TINY = PRESETS[Preset.TINY]
WINDOW = 5


def drawn(spec: WorldSpec, seed: int) -> tuple[WorldPapers, Citations]:
    papers = draw_papers(spec, seed)
    return papers, draw_citations(spec, papers, seed)


def years_of(papers: WorldPapers) -> NDArray[np.int64]:
    return np.repeat(np.arange(YEARS), np.diff(papers.year_start))


def disruption(papers: WorldPapers, citations: Citations) -> list[float | None]:
    """CD by its set form (Funk and Owen-Smith 2017), None where it has no label: no references or no citer at all."""
    year = years_of(papers).tolist()
    refs = [citations.cited[a:b].tolist() for a, b in zip(citations.offsets[:-1], citations.offsets[1:], strict=True)]
    citers: list[list[int]] = [[] for _ in refs]
    for paper, cited in enumerate(refs):
        for one in cited:
            citers[one].append(paper)

    def within(paper: int, one: int) -> set[int]:
        return {c for c in citers[one] if 0 < year[c] - year[paper] <= WINDOW}

    values: list[float | None] = []
    for paper, cited in enumerate(refs):
        focal = within(paper, paper)
        before = set[int]().union(*(within(paper, one) for one in cited))
        union = len(focal | before)
        known = bool(cited) and union > 0
        values.append((len(focal) - 2 * len(focal & before)) / union if known else None)
    return values


@pytest.mark.golden
def test_the_graph_is_the_same_bits_on_every_machine() -> None:
    papers, citations = drawn(TINY, 0)
    digest = hashlib.sha256()
    for part in (papers.field, papers.topic, papers.cause, papers.fitness, papers.wander):
        digest.update(np.ascontiguousarray(part).astype("<i8").tobytes())
    digest.update(citations.offsets.astype("<i8").tobytes())
    digest.update(citations.cited.astype("<u4").tobytes())
    assert digest.hexdigest() == GRAPH


GRAPH = "1ac971f849e22168090e143bee1add46701390503b13916c6c5e8546e30e6a61"


def test_label_shares_of_the_tiny_world_are_the_recipe_s() -> None:
    shares = np.zeros(3)
    for seed in (0, 3):
        values = [cd for cd in disruption(*drawn(TINY, seed)) if cd is not None]
        cd = np.array(values)
        shares += [(cd >= TINY.cut).mean(), (cd <= -TINY.cut).mean(), (np.abs(cd) < TINY.cut).mean()]
    disruptive, consolidating, neutral = shares / 2
    assert 0.10 < disruptive < 0.16
    assert 0.26 < consolidating < 0.34
    assert 0.52 < neutral < 0.61


def test_the_cause_predicts_the_label_but_does_not_give_it_away() -> None:
    papers, citations = drawn(TINY, 0)
    table = np.zeros((3, 3))
    for cause, cd in zip(papers.cause.tolist(), disruption(papers, citations), strict=True):
        if cd is not None:
            label = 0 if cd >= TINY.cut else 1 if cd <= -TINY.cut else 2
            table[cause, label] += 1
    balanced = table / table.sum(axis=0)  # each label counts the same, as in a balanced slice
    accuracy = balanced.max(axis=1).sum() / 3
    assert 0.62 < accuracy < 0.75


def test_references_are_earlier_papers_each_once() -> None:
    papers, citations = drawn(TINY, 1)
    citing = np.repeat(np.arange(TINY.papers), np.diff(citations.offsets))
    assert (citations.cited < citing).all()
    pairs = citing * TINY.papers + citations.cited
    assert len(np.unique(pairs)) == len(pairs)
    assert (papers.fitness[citations.cited] > 0).all()  # who is dead on arrival is never cited


def test_lost_reference_lists_are_empty_and_the_others_rarely_fall_short() -> None:
    papers, citations = drawn(TINY, 1)
    made = np.diff(citations.offsets)
    assert 0.04 < (~papers.recorded).mean() < 0.08
    assert not made[~papers.recorded].any()
    late = papers.recorded & (years_of(papers) > 5)
    assert (made[late] == papers.wanted[late]).mean() > 0.95


def test_citers_of_a_developer_also_cite_its_references_and_those_of_a_pioneer_do_not() -> None:
    papers, citations = drawn(PRESETS[Preset.TINY], 2)
    refs = [
        set(citations.cited[a:b].tolist()) for a, b in zip(citations.offsets[:-1], citations.offsets[1:], strict=True)
    ]
    through = {cause: [0, 0] for cause in CAUSES}
    for cited in refs:
        for one in cited:
            counts = through[CAUSES[papers.cause[one]]]
            counts[0] += bool(refs[one] & cited)
            counts[1] += 1
    rate = {cause: hits / total for cause, (hits, total) in through.items()}
    assert rate[Cause.PIONEER] < 0.3 < 0.55 < rate[Cause.DEVELOPER]
    assert rate[Cause.PIONEER] < rate[Cause.ROUTINE] < rate[Cause.DEVELOPER]


def test_novel_papers_cite_other_fields_more_often() -> None:
    papers, citations = drawn(TINY, 0)
    citing = np.repeat(np.arange(TINY.papers), np.diff(citations.offsets))
    abroad = papers.field[citing] != papers.field[citations.cited]
    novel = (papers.second_field != papers.field)[citing]
    assert abroad[novel].mean() > 1.5 * abroad[~novel].mean()


def test_dirt_is_what_it_says() -> None:
    papers, citations = drawn(TINY, 0)
    dirt = draw_dirt(papers, citations, 0)
    count, year = TINY.papers, years_of(papers)
    assert (dirt.dangling.cited >= count).all()
    assert len(np.unique(dirt.dangling.cited)) == len(dirt.dangling)
    assert (dirt.self_loop.cited == dirt.self_loop.citing).all()
    assert (year[dirt.forward.cited] > year[dirt.forward.citing]).all()
    refs = {
        (paper, one)
        for paper in range(count)
        for one in citations.cited[citations.offsets[paper] : citations.offsets[paper + 1]].tolist()
    }
    twice = zip(dirt.duplicate.citing.tolist(), dirt.duplicate.cited.tolist(), strict=True)
    assert all(pair in refs for pair in twice)
    edges = len(citations.cited)
    assert 0.007 < len(dirt.dangling) / edges < 0.013
    assert 0.003 < len(dirt.duplicate) / edges < 0.007
    assert 0.0015 < len(dirt.forward) / edges < 0.0045
    assert 0 < len(dirt.self_loop) < 0.005 * count
    for kind in (dirt.dangling, dirt.duplicate, dirt.forward, dirt.self_loop):
        assert papers.recorded[kind.citing].all()
        assert (np.diff(kind.citing) >= 0).all()


def test_another_seed_is_another_world() -> None:
    assert not np.array_equal(drawn(TINY, 0)[1].cited, drawn(TINY, 1)[1].cited)


@pytest.mark.parametrize("papers", [1, 2, 40])
def test_a_world_of_a_few_papers_in_one_topic_works(papers: int) -> None:
    spec = replace(TINY, papers=papers, fields=1, topics=1)
    made, citations = drawn(spec, 0)
    dirt = draw_dirt(made, citations, 0)
    assert len(made.field) == papers
    assert (citations.cited < papers).all()
    assert len(dirt.forward) <= papers


@pytest.mark.parametrize("field", ["papers", "fields", "topics"])
def test_an_impossible_size_is_refused_by_name(field: str) -> None:
    with pytest.raises(ConfigError, match=f"field: {field} = 0"):
        replace(TINY, **{field: 0})
    with pytest.raises(ConfigError, match=f"field: {field}"):
        replace(TINY, **{field: 10**8})


def test_a_scaled_world_has_more_fields_of_the_same_size() -> None:
    large = scaled(2_000_000)
    full = PRESETS[Preset.FULL]
    assert (large.papers, large.fields, large.references) == (2_000_000, 80, 20)
    assert large.papers // large.fields == full.papers // full.fields
    assert scaled(full.papers) == full
