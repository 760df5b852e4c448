from pathlib import Path

import polars as pl
import pytest
from run_files import write_files

from command_line import command
from tinsmith.data.corpus import Corpus
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import MetricSettings
from tinsmith.data.sources.source import build_corpus
from tinsmith.data.sources.synthetic import SyntheticSource
from tinsmith.data.sources.world.spec import Preset
from tinsmith.lab.runs.frames import answers_by_item, flat, tables_of


def write_run(folder: Path, name: str) -> None:
    common = {"step": 2, "split": "eval", "prompt_id": "a"}
    rollouts = [
        {**common, "sample": 0, "tokens": [1, 2], "terms": {"right": 1.0}, "total": 1.0},
        {**common, "sample": 1, "tokens": [3], "terms": {"right": 0.0}, "total": 0.0},
        {**common, "sample": 2, "failure": {"where": "reward", "what": "ZeroDivisionError"}},
    ]
    metrics = [{"step": 0, "eval/reward/total": 0.25}, {"step": 2, "eval/reward/total": 0.75, "optim/lr": 0.1}]
    files = {"config.json": {"name": name, "settings": {"steps": 2}}, "manifest.json": {"status": "finished"}}
    write_files(folder, {**files, "metrics.jsonl": metrics, "rollouts.jsonl": rollouts})
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "cut')


def test_results_of_a_study_are_tables_that_name_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "cells/a", "one")
    write_run(tmp_path / "cells/b", "two")
    assert command(capsys, "export-results", str(tmp_path), "--out", str(tmp_path / "t")).code == 0
    answers = pl.read_csv(tmp_path / "t/answers.csv")
    assert answers.rows() == [("cells/a", 2, "eval", "a", 3, 1, 0.5, 0.5), ("cells/b", 2, "eval", "a", 3, 1, 0.5, 0.5)]
    assert pl.read_csv(tmp_path / "t/metrics.csv")["optim/lr"].to_list() == [None, 0.1, None, 0.1]
    assert pl.read_csv(tmp_path / "t/rollouts.csv")["tokens"].to_list()[:3] == ["[1,2]", "[3]", None]


def test_results_of_one_run_have_no_column_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", "one")
    assert tables_of(tmp_path / "run")["metrics"].columns[0] == "step"
    assert command(capsys, "export-results", str(tmp_path / "run"), "--to", "parquet").code == 0
    assert pl.read_parquet(tmp_path / "run/tables/rollouts.parquet").height == 3


def test_a_failed_rollout_is_counted_and_enters_no_mean() -> None:
    frame = pl.DataFrame({"step": [1, 1], "split": ["eval"] * 2, "prompt_id": ["a"] * 2, "total": [None, 1.0],
                          "failure": [{"where": "reward"}, None]})  # fmt: skip
    found = answers_by_item(flat(frame))
    assert found.select("samples", "failed", "total").rows() == [(2, 1, 1.0)]


def test_labels_of_all_papers_of_a_corpus_are_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_corpus(SyntheticSource(Preset("tiny"), 0), tmp_path / "corpus")
    corpus = Corpus.open(tmp_path / "corpus")
    compute_metrics(corpus, MetricSettings())
    assert command(capsys, "export-results", str(corpus.folder), "--to", "parquet", "--out", str(tmp_path)).code == 0
    labels = pl.read_parquet(tmp_path / "labels.parquet")
    assert labels.height == corpus.card.papers
    cut = corpus.card.thresholds or 0.0
    disruptive = labels.filter(pl.col("disruption") == "disruptive")
    assert disruptive.height == labels.filter((pl.col("cd") >= cut) & (pl.col("cd_status") != "no_refs")).height > 0
    assert labels.filter(pl.col("cd").is_null())["disruption"].null_count() == labels["cd"].null_count()


def test_runs_are_listed_with_state_steps_and_reward(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "study/cells/a", "one")
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed/config.json").write_text('{"name": "two"}')
    code, listed, _ = command(capsys, "ls", tmp_path)
    assert code == 0
    lines = [line.split() for line in listed.splitlines()]
    assert lines[1:] == [["killed", "two", "begun", "0"], ["study/cells/a", "one", "finished", "2", "of", "2", "0.750"]]


@pytest.mark.parametrize("verb", ["ls", "export-results"])
def test_a_folder_without_runs_is_refused(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = command(capsys, verb, tmp_path)
    assert refused.code == 2
    assert "holds no run" in refused.err
