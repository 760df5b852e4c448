"""The commands on results and on fetched data."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from run_files import write_files
from small_snap import Snap, serving, small_files

from command_line import Run, command
from tinsmith.cli.run import INTERRUPTED
from tinsmith.data.corpus import Corpus
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import MetricSettings
from tinsmith.data.sources import source as source_module
from tinsmith.data.sources.hepth import release
from tinsmith.data.sources.source import build_corpus
from tinsmith.data.sources.synthetic import SyntheticSource
from tinsmith.data.sources.world.spec import Preset
from tinsmith.lab.page.report import markdown_report
from tinsmith.lab.results.run_details import steps_words
from tinsmith.lab.runs.frames import answers_by_item, flat, tables_of
from tinsmith.lab.runs.reader import read_run
from tinsmith.pages.document import Document


def write_run(folder: Path, name: str) -> None:
    common = {"step": 2, "split": "eval", "prompt_id": "a"}
    rollouts = [
        {**common, "sample": 0, "tokens": [1, 2], "text": "yes", "terms": {"right": 1.0}, "total": 1.0},
        {**common, "sample": 1, "tokens": [3], "text": "no", "terms": {"right": 0.0}, "total": 0.0},
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
    rows = [(f"cells/{name}", 2, "eval", "a", 3, 1, "yes", 0.5, 0.5) for name in "ab"]
    assert answers.rows() == rows
    assert pl.read_csv(tmp_path / "t/metrics.csv")["optim/lr"].to_list() == [None, 0.1, None, 0.1]
    assert pl.read_csv(tmp_path / "t/rollouts.csv")["tokens"].to_list()[:3] == ["[1,2]", "[3]", None]


def test_results_of_one_run_have_no_column_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", "one")
    assert tables_of(tmp_path / "run", [])["metrics"].columns[0] == "step"
    written = command(capsys, "export-results", str(tmp_path / "run"), "--to", "parquet", code=0)
    assert "metrics.jsonl stops in the middle of a line" in written.err
    assert pl.read_parquet(tmp_path / "run/tables/rollouts.parquet").height == 3


def test_a_run_whose_numbers_no_table_takes_is_left_out_by_name(tmp_path: Path) -> None:
    for name in ("good", "hostile"):
        write_run(tmp_path / name, name)
    write_files(tmp_path / "hostile", {"metrics.jsonl": [{"step": 0, "train/nll": 10**400}]})
    notes: list[str] = []
    assert set(tables_of(tmp_path, notes)["metrics"]["run"]) == {"good"}
    assert any(f"{tmp_path / 'hostile'} is left out" in note for note in notes)
    assert read_run(tmp_path / "hostile").metrics == {0: {}}


def test_a_failed_rollout_is_counted_and_enters_no_mean() -> None:
    frame = pl.DataFrame({"step": [1, 1], "split": ["eval"] * 2, "prompt_id": ["a"] * 2, "total": [None, 1.0],
                          "failure": [{"where": "reward"}, None]})  # fmt: skip
    found = answers_by_item(flat(frame))
    assert found.select("samples", "failed", "total").rows() == [(2, 1, 1.0)]


def test_answers_of_a_judged_run_have_their_mean_pass_rate() -> None:
    line = {"step": 1, "split": "eval", "prompt_id": "a"}
    found = answers_by_item(pl.DataFrame([{**line, "pass_rate": 1.0}, {**line, "pass_rate": 0.0}]))
    assert found["pass_rate"].to_list() == [0.5]


def test_answers_by_item_hold_the_first_answer_its_label_and_the_right_one() -> None:
    common = {"split": "eval", "prompt_id": "a", "gold": "neutral"}
    labels = pl.DataFrame([
        {**common, "step": 0, "text": None, "predicted": None, "failure": {"where": "sample"}, "total": None},
        {**common, "step": 0, "text": "not JSON", "predicted": None, "failure": None, "total": 0.0},
        {**common, "step": 0, "text": "{...}", "predicted": "neutral", "failure": None, "total": 1.0},
        {**common, "step": 4, "text": "{...}", "predicted": "neutral", "failure": None, "total": 1.0},
    ])  # fmt: skip
    found = answers_by_item(flat(labels)).select("step", "text", "predicted", "gold", "right")
    assert found.rows() == [(0, "not JSON", None, "neutral", 0.5), (4, "{...}", "neutral", "neutral", 1.0)]
    both = pl.DataFrame([{"step": 0, "split": "eval", "prompt_id": "a", "text": "t", "gold": {"novelty": "novel"}}])
    assert answers_by_item(flat(both))["gold.novelty"].to_list() == ["novel"]
    two = both.with_columns(predicted=pl.struct(novelty=pl.lit("novel")))
    assert answers_by_item(flat(two))["right.novelty"].to_list() == [1.0]
    assert "right" not in answers_by_item(flat(both.with_columns(predicted=0.5, gold=pl.lit("0.5")))).columns


def test_answers_to_a_task_stand_beside_those_it_names_right(tmp_path: Path) -> None:
    write_run(tmp_path, "one")
    assert "gold" not in tables_of(tmp_path, [])["answers"].columns
    write_files(tmp_path, {"task.json": {"items": [{"id": "a", "answer": "yes"}, {"id": "b"}]}})
    answers = tables_of(tmp_path, [])["answers"]
    assert answers.columns[4:8] == ["failed", "text", "gold", "terms.right"]
    assert answers["gold"].to_list() == ["yes"]


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
    (tmp_path / "killed/metrics.jsonl").write_text('{"step": 0, "eval/reward/total": 0.5}\n{"step": 1}\n{"st')
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"model_type": "llama"}')
    values = {"sentences": ["SFT: right 0.500 (0.400 to 0.600); 2 of 5 expectations were met.", "More."]}
    (tmp_path / "study/study.json").write_text(json.dumps(values))

    def listed(folder: Path, *options: str) -> list[str]:
        lines = command(capsys, "ls", folder, *options, code=0).out.splitlines()[1:]
        return [" ".join(line.split()) for line in lines]

    runs = ["killed two interrupted 2 reward 0.500", "study a study not finished 2 of 5 expectations were met"]
    cell = "one finished 2 of 2 reward 0.750"
    assert listed(tmp_path) == runs
    assert listed(tmp_path, "--all") == [*runs, f"study/cells/a {cell}"]
    assert listed(tmp_path / "study/cells") == [f"a {cell}"]


def test_a_judged_run_that_stopped_early_is_listed_and_repeated_by_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", "mine")
    config = {"name": "mine", "settings": {"steps": 60}, "kind": "rlvr", "overrides": {"lora_rank": 4}}
    around = {"task": str(tmp_path / "my_task.py"), "files": {"words": str(tmp_path / "w.txt"), "more": ""}}
    manifest = {"status": "finished", "circumstances": {**around, "model_name": "here", "data": None}}
    ends = [{"step": 30, "eval/score": 0.25}, {"step": 60, "eval/score": 0.5, "train/stopped_at": 31.0}]
    write_files(tmp_path / "run", {"config.json": config, "manifest.json": manifest, "metrics.jsonl": ends})
    assert "mine  finished  31 of 60  score 0.500" in command(capsys, "ls", tmp_path, code=0).out
    assert steps_words(read_run(tmp_path / "run")).startswith("31 of 60 steps; it stopped early")
    page = Document(kind="", title="", facts=(), sections=())
    assert "\ntinsmith run my_task.py lora_rank=4 model_name=here words=w.txt\n" in markdown_report(
        page, [tmp_path / "run"]
    )


def test_without_a_folder_what_commands_here_made_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "out/quickstart/a", "one")
    with (tmp_path / "out/quickstart/a/metrics.jsonl").open("a") as file:
        file.write('\n{"step": 3, "eval/macro_f1": 0.4}\n{"step": 3, "test/macro_f1": 0.5, "test/reward/total": 0.1}\n')
    assert "out/quickstart/a  one  finished  2 of 2  macro-F1 0.500" in command(capsys, "ls").out
    write_run(tmp_path / "runs/b", "two")
    assert [line.split()[0] for line in command(capsys, "ls").out.splitlines()[1:]] == ["out/quickstart/a", "runs/b"]


@pytest.mark.parametrize(
    ("source", "further"),
    [
        (("--source", "synthetic", "--preset", "tiny"), "begins again"),
        (("--source", "openalex", "--works", "W1"), "goes on where it stopped"),
    ],
)
def test_an_interrupted_build_says_how_it_goes_on(
    source: tuple[str, ...],
    further: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("OPENALEX_API_KEY", "key")
    monkeypatch.setattr(source_module, "build_corpus", interrupted)
    ran = command(capsys, "data", "build", *source, "--out", tmp_path / "corpus")
    assert ran.code == INTERRUPTED
    assert f"interrupted; the same command {further}" in ran.err


@pytest.mark.parametrize("verb", ["replay", "audit"])
def test_an_interrupted_check_says_that_it_begins_again(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    write_run(tmp_path / "run", "one")
    monkeypatch.setattr(f"tinsmith.lab.experiment.{verb}.{verb}", interrupted)
    ran = command(capsys, verb, tmp_path / "run")
    assert ran.code == INTERRUPTED
    assert "the same command begins again" in ran.err


def test_a_list_of_works_that_is_not_there_is_no_wrong_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = ("data", "build", "--out", tmp_path)
    assert "--source openalex|sciscinet|files|synthetic" in command(capsys, *requests, code=2).err
    assert "there is no such file" in command(capsys, *requests, "--works", "none.txt", code=2).err


def test_files_of_others_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "study/cells/a", "one")
    run, notes = tmp_path / "study/cells/a", tmp_path / "notes.html"
    notes.write_text("my notes")
    for verb in (("report", run), ("pack", run)):
        refused = command(capsys, *verb, "--out", notes)
        assert (refused.code, notes.read_text()) == (2, "my notes")
        assert "exists already" in refused.err
    assert [command(capsys, "report", run, "--out", tmp_path / "page.html").code for _ in range(2)] == [0, 0]


def test_a_report_warns_of_a_damaged_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, "one")
    assert "warning" not in command(capsys, "report", tmp_path).out
    (tmp_path / "manifest.json").write_text('{"status": "fini')
    assert "warning: manifest.json cannot be read" in command(capsys, "report", tmp_path).out


def test_a_report_counts_no_seconds_among_its_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def wait(what: str) -> Generator[None, None, None]:
        yield
        print(f"{what}: over")

    monkeypatch.setattr(sys.modules["tinsmith.cli.report"], "ticking", wait)
    write_run(tmp_path, "one")
    (tmp_path / "manifest.json").write_text('{"status": "fini')
    first, second, *_ = command(capsys, "report", tmp_path, code=0).out.splitlines()
    assert (first, second.partition(":")[0]) == ("reading the runs: over", "warning")


def test_a_study_and_what_is_missing_are_not_taken_for_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "study/cells/a", "one")
    assert "cells/" in command(capsys, "audit", tmp_path / "study").err
    missing = command(capsys, "diff", tmp_path / "nothing.zip", tmp_path)
    assert f"there is no folder or file {tmp_path / 'nothing.zip'}" in missing.err
    for verb in ("report", "export-results"):
        refused = command(capsys, verb, tmp_path / "stud", code=2)
        assert f"perhaps {tmp_path / 'study'}" in refused.err


@pytest.mark.parametrize("verb", ["ls", "export-results"])
def test_a_folder_without_runs_is_refused(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = command(capsys, verb, tmp_path, code=2)
    assert "holds no run" in refused.err


@pytest.fixture
def snap(monkeypatch: pytest.MonkeyPatch) -> Generator[Snap, None, None]:
    with serving(Snap(small_files())) as here:
        monkeypatch.setattr(release, "HEPTH", replace(here.release(), name="hepth"))
        yield here


@pytest.fixture
def fetch(capsys: pytest.CaptureFixture[str], snap: Snap) -> Run:
    assert snap.url  # it stands in for SNAP
    return partial(command, capsys, "data", "fetch")


def test_it_says_what_is_there_and_what_is_next(fetch: Run, tmp_path: Path) -> None:
    first = fetch("hepth", "--out", tmp_path / "c")
    assert (first.code, first.err) == (0, "records read\n")
    assert str(tmp_path / "c" / "papers.jsonl.gz") in first.out
    assert "0" * 16 in first.out  # the digest of the known texts, which these are not
    again = fetch("hepth", "--out", tmp_path / "c")
    assert (again.code, again.out.splitlines()[1:]) == (0, first.out.splitlines()[1:])
    assert again.out.splitlines()[0] != first.out.splitlines()[0]


def test_without_a_folder_it_takes_the_name(fetch: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert fetch("hepth").code == 0
    assert (tmp_path / "hepth" / "edges.tsv.gz").is_file()


def test_a_name_that_is_none_is_told(fetch: Run) -> None:
    code, out, err = fetch("hepph")
    assert (code, out, "hepth" in err) == (2, "", True)


def test_a_refusal_is_told_in_five_lines(fetch: Run, snap: Snap, tmp_path: Path) -> None:
    snap.code = 503
    code, out, err = fetch("hepth", "--out", tmp_path / "c")
    assert (code != 0, out, "503" in err) == (True, "", True)
