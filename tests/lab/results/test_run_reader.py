import json
import os
from pathlib import Path

import pytest
from fake_runs import LADDER, write_run
from kept_answers import keep_answers

from sentences import missing
from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.reader import read_rollouts, read_run
from tinsmith.lab.runs.records import Split
from tinsmith.types.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", LADDER["exp4"])


def cut_last_line(file: Path) -> None:
    """Cut a file as a kill in the middle of a write does."""
    os.truncate(file, file.stat().st_size - 9)


def test_a_finished_run_is_read_without_a_note(folder: Path) -> None:
    run = read_run(folder)
    assert run.notes == ()
    assert run.config.title == "ladder/exp4@1"
    assert run.config.kind is Kind.RL
    assert run.config.seed == 0
    assert run.labels == ("disruptive", "consolidating", "neutral")
    assert run.last_step == 60
    assert list(run.metrics) == list(range(61))
    assert run.manifest is not None
    assert run.manifest.selected is not None
    assert run.manifest.selected.step == 60
    assert run.baselines is not None


def test_a_line_that_was_being_written_is_left_out_and_told(folder: Path) -> None:
    for name in ("metrics.jsonl", "rollouts.jsonl"):
        cut_last_line(folder / name)
    run = read_run(folder)
    assert run.last_step == 59
    (note,) = run.notes
    assert missing(note, "metrics.jsonl", "line") == []
    notes: list[str] = []
    whole = (folder / "rollouts.jsonl").read_bytes().count(b"\n")
    assert sum(1 for _ in read_rollouts(folder, notes)) == whole
    (note,) = notes
    assert missing(note, "rollouts.jsonl", "line") == []


def test_a_line_without_its_end_does_not_count_even_if_it_is_json(folder: Path) -> None:
    file = folder / "metrics.jsonl"
    os.truncate(file, file.stat().st_size - 1)
    assert read_run(folder).last_step == 59


def test_a_damaged_line_in_the_middle_is_left_out_and_counted(folder: Path) -> None:
    file = folder / "metrics.jsonl"
    lines = file.read_bytes().split(b"\n")
    lines[3] = b'{"step": 3, "eval/label_m\xff\x00'
    lines[5] = b"[1, 2]"
    file.write_bytes(b"\n".join(lines))
    run = read_run(folder)
    assert 3 not in run.metrics
    assert len(run.metrics) == 59
    (note,) = run.notes
    assert missing(note, "metrics.jsonl", 2) == []


def test_what_is_no_number_is_no_metric(folder: Path) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 61, "a": "words", "b": null, "c": 2, "d": [1]}\n{"a": 1}\n')
    run = read_run(folder)
    assert run.metrics[61] == {"b": None, "c": 2.0}
    (note,) = run.notes
    assert missing(note, "metrics.jsonl", 1, "step") == []


def test_a_run_that_only_just_began_is_read(folder: Path) -> None:
    for file in folder.iterdir():
        if file.name != "config.json":
            file.unlink()
    run = read_run(folder)
    assert run.manifest is None
    assert run.last_step is None
    assert run.alarms == ()
    assert len(run.notes) == 5


def test_a_folder_without_a_run_is_refused_in_few_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no run"):
        read_run(tmp_path)


def test_a_damaged_config_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text('{"name": 3}')
    with pytest.raises(DataError, match=r"config\.json is damaged"):
        read_run(folder)


def test_a_damaged_manifest_is_told_and_the_alarms_come_from_the_metrics(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")
    run = read_run(folder)
    assert run.manifest is None
    assert "manifest.json" in run.notes[0]
    (alarm,) = run.alarms
    assert (alarm.kind, alarm.label, alarm.step) == ("min_class_recall", "disruptive", 40)


def test_keys_that_nobody_knows_yet_are_no_error(folder: Path) -> None:
    for name in ("config.json", "manifest.json"):
        value = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(value | {"later": {"than": "this"}}))
    assert read_run(folder).notes == ()


def test_baselines_of_another_task_are_told(folder: Path) -> None:
    value = json.loads((folder / "baselines.json").read_text())
    value["targets"][0]["classes"] = ["novel", "balanced", "conventional"]
    (folder / "baselines.json").write_text(json.dumps(value))
    run = read_run(folder)
    assert run.baselines is None
    assert run.notes == ('baselines.json has nothing on the task "disruption".',)


def test_a_failed_rollout_has_its_cause_and_no_total(folder: Path) -> None:
    failed = [one for one in read_rollouts(folder, []) if one.failure is not None]
    assert len(failed) == 3
    assert all(one.total is None and one.split == Split.TRAIN for one in failed)


def test_the_baselines_answers_are_read_where_they_were_kept(folder: Path) -> None:
    assert read_run(folder).baseline_answers == {}
    told = keep_answers(folder)
    run = read_run(folder)
    assert list(run.baseline_answers) == [Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT]
    assert run.baseline_answers[Baseline.METADATA] == told
    assert run.notes == ()
    (folder / BASELINE_ANSWERS).unlink()
    run = read_run(folder)
    assert run.baseline_answers == {}
    assert run.notes == ()


def test_answers_of_other_baselines_are_left_out_and_told(folder: Path) -> None:
    keep_answers(folder)
    file = folder / BASELINE_ANSWERS
    file.write_bytes(file.read_bytes().replace(b"neutral", b"disruptive", 1))
    run = read_run(folder)
    assert run.baselines is not None
    assert run.baseline_answers == {}
    (note,) = run.notes
    assert missing(note, file) == []
