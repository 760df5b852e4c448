"""The metrics stage and its command: files, columns, cards, and that nothing but corpus and settings decides a byte."""

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from corpora import Toy, random_edges, small_corpus, write_frames

from command_line import Run, command
from tinsmith.data.corpus import Corpus
from tinsmith.data.indices.atypicality import Null, NullModel
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import Granularity, MetricSettings
from tinsmith.data.metrics_reader import read_metrics_card
from tinsmith.data.schema import METRIC_COLUMNS, METRICS, METRICS_CARD
from tinsmith.ops.extension import configure
from tinsmith.types.errors import ConfigError, DataError

PAPERS = 800


def world(folder: Path) -> Corpus:
    """A random corpus with journals and dates, some of each missing."""
    rng = np.random.default_rng(0)
    years = np.sort(rng.integers(1990, 2010, PAPERS)).astype(np.int32)
    papers = (
        pl.DataFrame(
            {
                "id": [f"W{i:04d}" for i in range(PAPERS)],
                "year": years,
                "month": rng.integers(1, 13, PAPERS),
                "dated": rng.random(PAPERS) < 0.9,
                "journal": rng.integers(0, 30, PAPERS),
            }
        )
        .with_columns(
            date=pl.when("dated").then(pl.date(pl.col("year"), pl.col("month"), 1)),
            venue=pl.when(pl.col("journal") > 0).then(pl.format("J{}", "journal")),
        )
        .sort("year", "date", "id", nulls_last=False)
    )
    return write_frames(folder, papers, *random_edges(PAPERS, seed=0))


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return world(tmp_path / "corpus")


ALL_SETTINGS = [
    MetricSettings(),
    MetricSettings(granularity=Granularity.DAY, window=3),
    MetricSettings(null=Null(model=NullModel.SWITCHING, nulls=4, seed=7), pool_years=4),
]


@pytest.mark.parametrize("settings", ALL_SETTINGS, ids=["default", "days", "switching"])
def test_files_depend_on_corpus_and_settings_only(corpus: Corpus, settings: MetricSettings) -> None:
    seen: set[tuple[bytes, bytes]] = set()
    for number in (1, 2, 4):
        configure(threads=number)
        compute_metrics(corpus, settings)
        files = [(corpus.folder / name).read_bytes() for name in (METRICS, METRICS_CARD)]
        seen.add((files[0], files[1]))
    assert len(seen) == 1
    assert sorted(path.name for path in corpus.folder.iterdir()) == [
        *("card.json", "edges.parquet", "metrics.json", "metrics.parquet", "papers.parquet")
    ]


def test_columns_and_rows_are_the_schemas_and_the_papers(corpus: Corpus) -> None:
    compute_metrics(corpus, MetricSettings())
    table = pl.read_parquet(corpus.folder / METRICS)
    assert dict(table.schema) == METRIC_COLUMNS
    assert table["id"].equals(corpus.papers("id")["id"])
    citing, cited = corpus.edges()
    assert table["references"].to_list() == np.bincount(citing, minlength=PAPERS).tolist()
    assert table["citations"].to_list() == np.bincount(cited, minlength=PAPERS).tolist()


def test_cd_is_null_exactly_where_it_is_empty(corpus: Corpus) -> None:
    compute_metrics(corpus, MetricSettings())
    table = corpus.metrics()
    assert set(table["cd_status"]) == {"ok", "no_refs", "no_window_citers", "empty"}
    assert (table["cd"].is_null() == (table["cd_status"] == "empty")).all()
    by_status = {status[0]: rows for status, rows in table.group_by("cd_status")}
    assert set(by_status["no_refs"]["cd"]) == {1.0}
    assert set(by_status["no_window_citers"]["cd"]) == {0.0}
    assert by_status["no_refs"]["references"].sum() == 0
    defined = table.filter(pl.col("cd").is_not_null())
    n_i, n_j, n_k = (defined[name].cast(pl.Int64) for name in ("n_i", "n_j", "n_k"))
    assert defined["cd"].equals((n_i - n_j) / (n_i + n_j + n_k), check_names=False)


def test_the_card_says_what_was_done(corpus: Corpus) -> None:
    settings = MetricSettings(null=Null(model=NullModel.SWITCHING, nulls=3, seed=5), pool_years=2)
    card = compute_metrics(corpus, settings)
    written = json.loads((corpus.folder / METRICS_CARD).read_bytes())
    assert written["settings"] == {
        **{"granularity": "year", "window_years": 5, "null": "switching"},
        **{"nulls": 3, "seed": 5, "pool_years": 2},
    }
    table = corpus.metrics()
    assert written["status"] == dict(table["cd_status"].value_counts().iter_rows())
    assert (written["papers"], written["edges"]) == (PAPERS, corpus.card.edges)
    assert written["corpus"] == corpus.card.fingerprint
    assert written["full_window"] == table["full_window"].sum() == card.full_window
    assert written["scored"] == PAPERS - table["z_p10"].null_count()
    assert written["pair_cells"] > written["undefined_pair_cells"] >= 0


def test_each_setting_has_a_fingerprint_of_its_own(corpus: Corpus) -> None:
    prints = [compute_metrics(corpus, settings).fingerprint for settings in ALL_SETTINGS]
    assert len(set(prints)) == len(ALL_SETTINGS)


def test_titles_and_abstracts_are_not_read(corpus: Corpus) -> None:
    compute_metrics(corpus, MetricSettings())
    expected = (corpus.folder / METRICS).read_bytes()
    # The columns are not even there: nothing that reads them would run.
    path = corpus.folder / "papers.parquet"
    pl.read_parquet(path).drop("title", "abstract", "concepts").write_parquet(path)
    compute_metrics(corpus, MetricSettings())
    assert (corpus.folder / METRICS).read_bytes() == expected


def test_five_years_are_1826_days() -> None:
    lengths = {window: MetricSettings(granularity=Granularity.DAY, window=window).length for window in (1, 3, 4, 5)}
    assert lengths == {1: 365, 3: 1095, 4: 1461, 5: 1826}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"window": 0}, "window"),
        ({"window_days": 0, "granularity": Granularity.DAY}, "window_days"),
        ({"window_days": 1826}, "window_days"),
        ({"pool_years": 0}, "pool_years"),
        ({"null": Null(nulls=0)}, "nulls"),
        ({"null": Null(model=NullModel.SWITCHING, nulls=1)}, "nulls"),
    ],
)
def test_settings_that_are_not_possible(settings: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MetricSettings(**settings)
    assert caught.value.field == field


def test_a_kill_between_the_two_files_leaves_no_card_of_another_table(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute_metrics(corpus, MetricSettings())
    real, renamed = os.replace, list[Path]()

    def killed(source: Path, target: Path) -> None:
        if renamed:
            raise KeyboardInterrupt
        renamed.append(target)
        real(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        compute_metrics(corpus, MetricSettings(window=2))
    with pytest.raises(DataError, match="no metrics"):
        read_metrics_card(corpus)


def test_days_need_dates(tmp_path: Path) -> None:
    undated = small_corpus(tmp_path, [Toy("a", 2000), Toy("b", 2001)], [("b", "a")])
    with pytest.raises(DataError, match="date"):
        compute_metrics(undated, MetricSettings(granularity=Granularity.DAY))
    assert not (tmp_path / METRICS).exists()


def test_a_corpus_without_edges(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path, [Toy("a", 2000), Toy("b", 2001, venue="J")], [])
    card = compute_metrics(corpus, MetricSettings())
    assert card.status == {"ok": 0, "no_refs": 0, "no_window_citers": 0, "empty": 2}
    assert corpus.metrics("pairs")["pairs"].to_list() == [0, 0]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(command, capsys, "data", "metrics")


def test_the_command_prints_what_it_found(run: Run, corpus: Corpus) -> None:
    code, out, err = run(corpus.folder, "--window", 3, "--threads", 1)
    card = json.loads((corpus.folder / METRICS_CARD).read_bytes())
    assert (code, err, card["settings"]["window_years"]) == (0, "atypicality\nCD index\n", 3)
    lines = {line[:30].strip(): line[30:].strip() for line in out.splitlines()[1:]}
    assert (lines["papers"], lines["edges"]) == ("800", f"{corpus.card.edges:,}")
    assert lines["cd: no refs"] == str(card["status"]["no_refs"])
    cd = corpus.metrics().filter(pl.col("cd_status").is_in(["ok", "no_window_citers"]))["cd"]
    assert lines["disruptive at |cd| >= 0.001"] == f"{(cd >= 0.001).mean():.1%}"
    assert lines["fingerprint"] == card["fingerprint"]


def test_a_mistake_takes_at_most_five_lines(run: Run, corpus: Corpus) -> None:
    for mistake in (["--window-days", 100], ["--window", 0], ["--threads", 0], ["--nulls", 3], ["--seed", 7]):
        code, out, err = run(corpus.folder, *mistake)
        assert (code, out) == (2, "")
        assert err
    err = run(corpus.folder / "nowhere", code=2).err
    assert str(corpus.folder / "nowhere") in err
