"""From raw data to baselines and a card, on real papers and on a synthetic world; the choice of papers."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from building import SHARED

from tinsmith.data.baselines.fitting import run_baselines
from tinsmith.data.baselines.report import Baseline
from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import Thresholds
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import MetricSettings
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.pool import Pool
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.selection import select
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split
from tinsmith.data.sources.files import FilesSource
from tinsmith.data.sources.source import Source, build_corpus
from tinsmith.data.sources.synthetic import SyntheticSource
from tinsmith.data.sources.world.spec import Preset
from tinsmith.pages.cards import write_page
from tinsmith.types.errors import ConfigError

pytestmark = pytest.mark.whole


HEPTH = SHARED / "hepth"


def _corpus(source: Source, folder: Path) -> Corpus:
    build_corpus(source, folder)
    compute_metrics(Corpus.open(folder), MetricSettings())
    return Corpus.open(folder)


def _baselines(corpus: Corpus, settings: SliceSettings, out: Path) -> dict[Baseline, float]:
    """Return each baseline's macro-F1, after all the steps to the card."""
    make_slice(corpus, settings, out)
    (target,) = run_baselines(Slice.open(out)).targets
    assert write_page(out).stat().st_size < 2_000_000
    return {score.baseline: score.macro_f1.value for score in target.scores}


@pytest.mark.skipif(not HEPTH.exists(), reason="the shared hepth folder is not here")
def test_cit_hepth_is_hard_from_text_and_leaks_through_metadata(tmp_path: Path) -> None:
    source = FilesSource(HEPTH / "papers.jsonl.gz", HEPTH / "edges.tsv.gz")
    corpus = _corpus(source, tmp_path / "corpus")
    natural = SliceSettings(
        task=Task.DISRUPTION,
        thresholds=Thresholds(cut=0.001),
        per_class=None,
        before=dt.date(1998, 5, 1),
        min_references=1,
        min_citers=1,
    )
    card = make_slice(corpus, natural, tmp_path / "natural")
    assert card.pool == {"disruptive": 1869, "consolidating": 5960, "neutral": 1137}
    scores = _baselines(corpus, replace(natural, per_class=1137), tmp_path / "slice")
    assert scores[Baseline.TEXT] == pytest.approx(0.43, abs=0.04)
    assert scores[Baseline.METADATA] == pytest.approx(0.54, abs=0.07)
    assert Baseline.ORACLE not in scores


def test_a_synthetic_world_can_be_learned_and_not_saturated(tmp_path: Path) -> None:
    corpus = _corpus(SyntheticSource(Preset.SMALL), tmp_path / "corpus")
    assert corpus.card.thresholds is not None
    settings = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=corpus.card.thresholds), per_class=2500)
    scores = _baselines(corpus, settings, tmp_path / "slice")
    assert scores[Baseline.MAJORITY] < 0.2
    assert scores[Baseline.PRIOR] == pytest.approx(1 / 3, abs=0.01)
    assert 0.42 <= scores[Baseline.TEXT] <= 0.58
    assert scores[Baseline.METADATA] > scores[Baseline.TEXT]  # citations give the label away
    assert 0.62 <= scores[Baseline.ORACLE] <= 0.75


COUNTS = (24_709, 58_321, 114_249)
SETTINGS = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=20_000)


@pytest.fixture(scope="module")
def pool() -> Pool:
    codes = np.repeat(np.arange(3, dtype=np.int8), COUNTS)
    np.random.default_rng(0).shuffle(codes)
    rows = np.arange(len(codes), dtype=np.uint32)
    return Pool(rows, [f"W{i}" for i in rows.tolist()], codes, np.zeros_like(codes), {})


def test_as_many_of_each_class_are_chosen(pool: Pool) -> None:
    members = select(pool, SETTINGS).members
    chosen = np.concatenate([members[split] for split in Split])
    assert len(chosen) == len(np.unique(chosen)) == 60_000
    assert np.bincount(pool.disruption[chosen]).tolist() == [20_000] * 3
    assert [len(members[split]) / 60_000 for split in Split] == pytest.approx([0.8, 0.1, 0.1], abs=0.004)


def test_the_class_that_is_short_is_named(pool: Pool) -> None:
    with pytest.raises(ConfigError, match="24,709 disruptive") as caught:
        select(pool, replace(SETTINGS, per_class=30_000))
    assert "58,321" not in str(caught.value)
    repeated = select(pool, replace(SETTINGS, per_class=30_000, oversample=True))
    assert repeated.oversampled == {"disruptive": 30_000 - 24_709}
    assert sum(len(one) for one in repeated.members.values()) == 90_000
