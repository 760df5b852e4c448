"""`tinsmith data slice|baselines|card`: what a person sees, and what a mistake looks like."""

import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from labelled import labelled_corpus, labelled_frames, write_corpus

from command_line import Run, command
from tinsmith import cli
from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split
from tinsmith.types.errors import DataError


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(command, capsys, "data")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return labelled_corpus(tmp_path_factory.mktemp("corpus"), 800).folder


@pytest.mark.whole
def test_slice_baselines_card(run: Run, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "slice"
    code, shown, stages = run(*("slice", corpus, "--cut", "0.001", "--per-class", "150", "--test", "30", "--out", out))
    assert (code, stages) == (0, "labelling papers\nwriting rows\n")
    assert "disruptive: cd >= 0.001" in shown
    assert "novelty - conventionality >= 0.15" in shown
    written = json.loads((out / "slice.json").read_text())
    assert written["sha256"] in shown
    assert written["settings"]["thresholds"]["cut"] == 0.001
    assert written["settings"]["caps"]["test"] == 30
    code, shown, errors = run("baselines", out)
    assert code == 0
    assert errors.startswith("fitting baselines\n")  # and that it goes on, where it is slow
    for name in ("majority", "prior", "metadata", "text", "text+metadata", "oracle"):
        assert name in shown
    assert run("card", out) == (0, f"wrote {out / 'card.html'}\n", "")
    assert run("card", corpus)[0] == 0


def test_a_synthetic_corpus_brings_its_own_cut(run: Run, tmp_path: Path) -> None:
    labelled_corpus(tmp_path / "c", 200, cut=0.02)
    shown = run("slice", tmp_path / "c", "--natural", "--out", tmp_path / "s", code=0).out
    assert "cd >= 0.02" in shown


def test_options_reach_the_settings(run: Run, corpus: Path, tmp_path: Path) -> None:
    options = (
        *("--task", "joint", "--mode", "legacy", "--splits", "legacy", "--seed", "3"),
        *("--cut", "0.002", "--margin", "0.1", "--status", "ok", "--keep-no-refs"),
        *("--full-window", "--min-references", "2", "--min-citers", "1", "--before", "2003"),
        *("--after", "1991-02", "--no-citations", "--no-year", "--natural", "--train", "50"),
    )
    assert run("slice", corpus, *options, "--out", tmp_path)[0] == 0
    assert json.loads((tmp_path / "slice.json").read_text())["settings"] == {
        "task": "joint",
        "thresholds": {"cut": 0.002, "mode": "legacy", "margin": 0.1, "keep_no_refs": True},
        "per_class": None,
        "caps": {"train": 50, "validation": None, "test": None},
        "seed": 3,
        "scheme": "legacy",
        "oversample": False,
        "status": "ok",
        "full_window": True,
        "min_references": 2,
        "min_citers": 1,
        "before": "2003-01-01",
        "after": "1991-02-01",
        "citations": False,
        "year": False,
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--cut", "0.001", "--per-class", "5000"), "at most"),
        (("--cut", "0.001", "--per-class", "5", "--natural"), "exactly one of the two"),
        (("--cut", "0.001"), "exactly one of the two"),
        (("--cut", "0.001", "--natural", "--before", "1998-13"), "--before = '1998-13'"),
        (("--cut", "0", "--natural"), "the cut must be above zero"),
        (("--natural",), "--cut"),
        (("--cut", "0.001", "--natural", "--test", "0"), "test = 0"),
        (("--cut", "0.001", "--natural", "--oversample"), "oversample"),
    ],
)
def test_a_mistake_takes_at_most_five_lines(
    run: Run, corpus: Path, tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    code, shown, errors = run("slice", corpus, *options, "--out", tmp_path / "s")
    assert (code, shown) == (2, "")
    assert says in errors
    assert not (tmp_path / "s").exists()


def test_a_missing_corpus_or_missing_metrics_says_what_to_run(run: Run, tmp_path: Path) -> None:
    common = ("--cut", "0.001", "--natural", "--out", tmp_path / "s")
    code, _, errors = run("slice", tmp_path / "nowhere", *common)
    assert (code, "tinsmith data build" in errors) == (2, True)
    write_corpus(tmp_path / "c", labelled_frames(20)[0], None)
    code, _, errors = run("slice", tmp_path / "c", *common)
    assert (code, "tinsmith data metrics" in errors) == (2, True)


@pytest.mark.parametrize("command", ["baselines", "card"])
def test_a_folder_that_is_no_slice_is_named(run: Run, tmp_path: Path, command: str) -> None:
    errors = run(command, tmp_path, code=2).err
    assert str(tmp_path) in errors


def test_baselines_need_rows(run: Run, corpus: Path, tmp_path: Path) -> None:
    run("slice", corpus, "--cut", "0.001", "--natural", "--out", tmp_path)
    code, _, errors = run("baselines", tmp_path, "--train-rows", "0")
    assert (code, "train_rows = 0" in errors) == (2, True)


def test_papers_are_left_out_by_a_file_of_ids(run: Run, corpus: Path, tmp_path: Path) -> None:
    usual = ("slice", corpus, "--natural", "--cut", "0.001", "--out")
    assert run(*usual, tmp_path / "all")[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "all" / "test.jsonl").read_text().splitlines()]
    named = [row["openalex_id"] for row in rows[:3]]
    (tmp_path / "ids").write_text("# seen before\n" + "\n".join([*named, "", "W-nobody"]))
    shown = run(*usual, tmp_path / "some", "--leave-out", tmp_path / "ids", code=0).out
    assert "3 left out by id" in shown
    assert "1 of 4 ids to be left out are not in the corpus" in shown
    left = [json.loads(line)["openalex_id"] for line in (tmp_path / "some" / "test.jsonl").read_text().splitlines()]
    assert left == [row["openalex_id"] for row in rows if row["openalex_id"] not in named]
    settings = [json.loads((tmp_path / name / "slice.json").read_text())["settings"] for name in ("all", "some")]
    assert settings[0] == {key: value for key, value in settings[1].items() if key != "left_out"}
    # Without the file it is another slice; with ids that nobody has, a mistake.
    assert run(*usual, tmp_path / "some")[0] == 2
    (tmp_path / "ids").write_text("nobody\n")
    errors = run(*usual, tmp_path / "none", "--leave-out", tmp_path / "ids", code=2).err
    assert "none of the 1 ids" in errors


@pytest.mark.parametrize("folder", [".", "/", "tests"])
def test_a_folder_is_no_file_of_ids(run: Run, corpus: Path, tmp_path: Path, folder: str) -> None:
    usual = ("slice", corpus, "--natural", "--cut", "0.001", "--out", tmp_path / "out")
    assert f"this is a folder\n  field: --leave-out = '{folder}'" in run(*usual, "--leave-out", folder, code=2).err


@pytest.mark.parametrize("name", [".", "/"])
def test_a_systems_error_about_a_path_without_a_name_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    def fail(**_: object) -> None:
        raise IsADirectoryError(21, "Is a directory", name)

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit):
        cli.main([])
    assert capsys.readouterr().err.startswith(f"tinsmith: {name}: Is a directory\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=None)
    make_slice(labelled_corpus(tmp_path / "corpus", 120), settings, tmp_path / "slice")
    return tmp_path / "slice"


def _refused(folder: Path, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        Slice.open(folder)
    assert "tinsmith data slice" in str(caught.value)


def test_a_changed_row_is_refused(folder: Path) -> None:
    file = folder / "test.jsonl"
    file.write_bytes(file.read_bytes().replace(b"things", b"thongs", 1))
    _refused(folder, "test.jsonl is not the file")


def test_a_missing_split_is_refused(folder: Path) -> None:
    (folder / "validation.jsonl").unlink()
    _refused(folder, "validation.jsonl is missing")


def test_a_changed_card_is_refused(folder: Path) -> None:
    file = folder / "slice.json"
    file.write_text(file.read_text().replace('"cut": 0.001', '"cut": 0.002'))
    _refused(folder, "changed after it was written")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"settings": {"task": "x"}}', b"\xff"])
def test_a_damaged_card_is_refused(folder: Path, content: bytes) -> None:
    (folder / "slice.json").write_bytes(content)
    _refused(folder, "slice.json is damaged")


def test_a_card_with_impossible_settings_is_refused(folder: Path) -> None:
    card = json.loads((folder / "slice.json").read_text())
    card["settings"]["thresholds"]["cut"] = -1.0
    (folder / "slice.json").write_text(json.dumps(card))
    _refused(folder, "slice.json is damaged")


def test_another_format_is_refused(folder: Path) -> None:
    card = json.loads((folder / "slice.json").read_text())
    card["format_version"] = 99
    (folder / "slice.json").write_text(json.dumps(card))
    _refused(folder, "another format")


def test_a_folder_without_a_slice_is_refused(tmp_path: Path) -> None:
    _refused(tmp_path, "is not a slice")
    _refused(tmp_path / "nowhere", "is not a slice")


def test_metrics_of_other_rows_are_refused(folder: Path) -> None:
    source = Slice.open(folder)
    with pytest.raises(DataError, match="field: column = 'nope'"):
        source.metrics("nope")
    frame = pl.read_parquet(folder / "metrics.parquet")
    frame.with_columns(pl.lit("train").alias("split")).write_parquet(folder / "metrics.parquet")
    with pytest.raises(DataError, match="field: train"):
        source.metrics()
    (folder / "metrics.parquet").unlink()
    with pytest.raises(DataError, match=r"metrics\.parquet"):
        source.metrics()


def test_rows_can_be_read_twice(folder: Path) -> None:
    source = Slice.open(folder)
    assert list(source.rows(Split.TRAIN)) == list(source.rows(Split.TRAIN))
