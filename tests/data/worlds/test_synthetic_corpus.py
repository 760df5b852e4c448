"""A synthetic world as a corpus: the writer's counts are what the world says it emitted."""

import hashlib
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.sources.source import build_corpus
from tinsmith.data.sources.synthetic import CHUNK, Emitted, SyntheticSource, build_synthetic
from tinsmith.data.sources.world.spec import PRESETS, Preset, scaled


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
    assert digest.hexdigest() == TINY


TINY = "5554a23409f761ba431bd46999150a31241f07bf3192c10eb3e3f5221778e2ea"


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
