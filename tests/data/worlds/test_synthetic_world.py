"""The synthetic world's papers, references and dirt: what was drawn, and that it is the same everywhere."""

import decimal
import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.sources.source import build_corpus
from tinsmith.data.sources.synthetic import CHUNK, Emitted, SyntheticSource, build_synthetic
from tinsmith.data.sources.world.citations import Citations, draw_citations
from tinsmith.data.sources.world.dirt import draw_dirt
from tinsmith.data.sources.world.draws import (
    exponential_ages,
    lognormal_values,
    normal_grid,
    poisson,
    threshold,
    weighted,
    words,
    zipf,
)
from tinsmith.data.sources.world.papers import CAUSES, YEARS, WorldPapers, draw_papers
from tinsmith.data.sources.world.spec import PRESETS, Cause, Preset, WorldSpec, scaled
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import random_bits

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
    assert (made[late] == papers.num_references[late]).mean() > 0.95


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


def built(out: Path, seed: int = 0, chunk: int = CHUNK) -> tuple[Corpus, Emitted]:
    source = SyntheticSource(Preset.TINY, seed)
    with CorpusWriter(out, source=source.description()) as writer:
        emitted = build_synthetic(Preset.TINY, seed, writer, chunk=chunk)
    return Corpus.open(out), emitted


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, Emitted]:
    return built(tmp_path_factory.mktemp("worlds") / "tiny")


@pytest.mark.golden
def test_the_tiny_world_is_the_same_on_every_machine(world: tuple[Corpus, Emitted]) -> None:
    corpus, _ = world
    papers = corpus.papers().with_columns(pl.col("date").cast(pl.String))
    digest = hashlib.sha256()
    for row in papers.iter_rows():
        digest.update(json.dumps(row).encode())
    for side in corpus.edges():
        digest.update(side.astype("<u4").tobytes())
    assert digest.hexdigest() == TINY_WORLD


TINY_WORLD = "5554a23409f761ba431bd46999150a31241f07bf3192c10eb3e3f5221778e2ea"


def test_the_card_counts_what_the_world_emitted(world: tuple[Corpus, Emitted]) -> None:
    corpus, emitted = world
    card = corpus.card
    assert (card.papers, card.edges) == (emitted.papers, emitted.clean_edges)
    assert card.forward_edges == emitted.forward_edges > 0
    assert card.dropped["dangling_edges"] == emitted.dangling_edges > 0
    assert card.dropped["duplicate_edges"] == emitted.duplicate_edges > 0
    assert card.dropped["self_loops"] == emitted.self_loops > 0
    assert sum(card.dropped.values()) == (emitted.dangling_edges + emitted.duplicate_edges + emitted.self_loops)
    assert not any(card.missing.values())
    assert card.thresholds == PRESETS[Preset.TINY].cut


def test_citations_are_the_in_degree(world: tuple[Corpus, Emitted]) -> None:
    corpus, _ = world
    _, cited = corpus.edges()
    counts = corpus.papers("cited_by_count")["cited_by_count"].to_numpy()
    assert np.array_equal(counts, np.bincount(cited, minlength=len(counts)))


def test_papers_that_lost_their_references_have_none(world: tuple[Corpus, Emitted]) -> None:
    corpus, emitted = world
    citing, _ = corpus.edges()
    silent = corpus.card.papers - len(np.unique(citing))
    assert silent >= emitted.lost_references > 0


def test_only_forward_edges_point_to_a_later_year(world: tuple[Corpus, Emitted]) -> None:
    corpus, emitted = world
    year = corpus.papers("year")["year"].to_numpy()
    citing, cited = corpus.edges()
    assert (year[cited] > year[citing]).sum() == emitted.forward_edges


def test_the_size_of_the_chunks_changes_nothing(world: tuple[Corpus, Emitted], tmp_path: Path) -> None:
    other, emitted = built(tmp_path / "chunks", chunk=173)
    assert other.card == world[0].card
    assert emitted == world[1]
    for name in ("papers.parquet", "edges.parquet", "card.json"):
        assert (other.folder / name).read_bytes() == (world[0].folder / name).read_bytes()


def test_another_seed_gives_another_corpus(world: tuple[Corpus, Emitted], tmp_path: Path) -> None:
    other, _ = built(tmp_path / "seed", seed=1)
    assert other.card.fingerprint != world[0].card.fingerprint


def test_every_cause_is_in_the_corpus_by_name(world: tuple[Corpus, Emitted]) -> None:
    causes = world[0].papers("cause")["cause"].value_counts(sort=True)
    assert set(causes["cause"]) == {"pioneer", "developer", "routine"}
    assert causes["count"].min() > 400


def test_the_card_names_the_preset_or_all_sizes(tmp_path: Path) -> None:
    preset = SyntheticSource(Preset.TINY, 4).description()
    assert (preset.kind, preset.settings) == (SourceKind.SYNTHETIC, {"preset": "tiny", "seed": 4})
    card = build_corpus(SyntheticSource(scaled(300), 4), tmp_path / "sized")
    assert card.papers == card.source.settings["papers"] == 300
    assert card.source.settings["shares"] == "(0.15, 0.4, 0.45)"


BITS = words(11, 0, 200_000)


def shares(outcomes: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(outcomes, minlength=count) / len(outcomes)


def test_words_of_a_stream_can_be_taken_from_any_position() -> None:
    assert np.array_equal(words(7, 0, 50), random_bits(7, 50))
    assert np.array_equal(words(7, 20, 30), random_bits(7, 50)[20:])
    assert np.array_equal(words(2**64 - 1, 3, 2), random_bits(2**64 - 1, 5)[3:])


def test_weights_become_shares() -> None:
    quarter = weighted([1, 2, 1])
    assert quarter.below.tolist() == [1 << 62, 3 << 62]
    edges = np.array([0, (1 << 62) - 1, 1 << 62, (3 << 62) - 1, 3 << 62, 2**64 - 1], dtype=np.uint64)
    assert quarter.draw(edges).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_lookup_agrees_with_the_draw_it_stands_for() -> None:
    table = weighted([0.5, 0.25, 0.25]).lookup()
    assert np.bincount(table).tolist() == [32768, 16384, 16384]


def test_zipf_poisson_and_ages_have_their_laws() -> None:
    ranks = np.arange(1, 6) ** -0.9
    assert shares(zipf(5, "0.9").draw(BITS), 5) == pytest.approx(ranks / ranks.sum(), abs=0.005)
    law = np.array([math.exp(-2.2) * 2.2**k / math.factorial(k) for k in range(12)])
    assert shares(poisson("2.2", 11).draw(BITS), 12) == pytest.approx(law, abs=0.005)
    ages = np.exp(-np.arange(40) / 3)
    assert shares(exponential_ages(3, 40).draw(BITS), 40) == pytest.approx(ages / ages.sum(), abs=0.005)


def test_a_lognormal_has_its_median_and_spread() -> None:
    logs = np.log(lognormal_values("1.2", 1 << 16)[normal_grid().draw(BITS)] / 65536)
    assert logs.mean() == pytest.approx(0, abs=0.01)
    assert logs.std() == pytest.approx(1.2, abs=0.01)
    assert (logs > 1.2).mean() == pytest.approx(0.1587, abs=0.005)


def test_a_threshold_never_leaves_32_bits() -> None:
    assert [threshold(p) for p in (0.0, 0.5, 1.0)] == [0, 1 << 31, 2**32 - 1]


def test_the_caller_s_decimal_context_changes_nothing() -> None:
    before = zipf(50, "0.6").below.tolist(), lognormal_values("0.6", 14).tolist()
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP)):
        after = zipf(50, "0.6").below.tolist(), lognormal_values("0.6", 14).tolist()
    assert before == after


@pytest.mark.golden
def test_the_tables_are_the_same_bits_on_every_machine() -> None:
    assert zipf(4, "0.6").below.tolist() == ZIPF
    assert lognormal_values("1.2", 1 << 16)[[0, 400, 600, 1023]].tolist() == LOGNORMAL


ZIPF = [7061465270722319672, 11720294913905398768, 15373062789147885050]
LOGNORMAL = [49, 13662, 227496, 87165890]
