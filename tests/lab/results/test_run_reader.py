import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from fake_runs import LADDER, write_run
from kept_answers import keep_answers

from sentences import missing
from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.results.arms import SHOWN, gather
from tinsmith.lab.runs.files import SERVED_NAME, Kind
from tinsmith.lab.runs.reader import read_rollouts, read_run
from tinsmith.lab.runs.records import Cause, Split
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
    assert run.manifest.selected.step == 60
    assert run.baselines is not None


def test_a_model_is_called_by_what_was_named_and_not_by_what_it_was_served_as(folder: Path) -> None:
    run = read_run(folder)
    assert run.manifest is not None
    run = replace(run, config=msgspec.structs.replace(run.config, model_name=SERVED_NAME))

    def model(named: str | None) -> str:
        return replace(run, manifest=msgspec.structs.replace(run.manifest, circumstances={"model_name": named})).model

    assert model("/models/SmolLM2-135M") == "SmolLM2-135M"
    assert model(None) not in (SERVED_NAME, "None")
    assert replace(run, manifest=None).model == SERVED_NAME


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
    messages = keep_answers(folder)
    run = read_run(folder)
    assert list(run.baseline_answers) == [Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT]
    assert run.baseline_answers[Baseline.METADATA] == messages
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


def test_evaluations_from_rollouts_agree_with_the_metrics_that_training_wrote(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", LADDER["exp5"]))
    gathered = gather(run)
    assert gathered.disagreements() == ()
    assert set(gathered.evaluations) == {
        *((split, step) for split in ("eval", "eval_greedy") for step in (0, 20, 40, 60)),
        ("test", 60),
        ("test_greedy", 60),
    }
    found = gathered.evaluations["eval", 40].metrics("eval")
    for key in ("eval/macro_f1", "eval/parse_ok", "eval/recall/neutral", "eval/invalid_rate"):
        assert found[key] == pytest.approx(run.metrics[40][key], abs=1e-12)


def test_metrics_that_the_rollouts_do_not_bear_out_are_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", LADDER["exp4"])
    file = folder / "rollouts.jsonl"
    text = file.read_text(encoding="utf-8")
    other = '"gold": "neutral", "predicted": "disruptive"'
    file.write_text(text.replace('"gold": "neutral", "predicted": "neutral"', other), "utf-8")
    run = read_run(folder)
    printed = gather(run).disagreements()
    assert any(sentence.startswith("test/label_match at step 60 is") for sentence in printed)


def test_failures_are_counted_by_cause_and_are_in_no_evaluation(tmp_path: Path) -> None:
    gathered = gather(read_run(write_run(tmp_path / "run", LADDER["exp4"])))
    cause = Cause("train", "sample", "TimeoutError: no answer within 60 s")
    assert gathered.failures == {cause: 3}


def test_a_second_answer_to_a_paper_is_not_counted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", LADDER["exp4"])
    lines = (folder / "rollouts.jsonl").read_bytes().splitlines(keepends=True)
    with (folder / "rollouts.jsonl").open("ab") as file:
        file.write(lines[-1])
    gathered = gather(read_run(folder))
    assert gathered.notes == ("1 evaluation rollouts answer a paper again; the first answer is counted.",)
    last = gathered.last(Split.TEST_GREEDY)
    assert len(last.answers) == 210


def test_an_unknown_label_is_a_note_and_no_crash(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", LADDER["exp4"])
    file = folder / "rollouts.jsonl"
    file.write_text(file.read_text("utf-8").replace('"gold": "neutral"', '"gold": "novel"'), "utf-8")
    gathered = gather(read_run(folder))
    assert gathered.evaluations == {}
    assert "The rollouts of eval at step 0 cannot be scored" in gathered.notes[0]


def test_the_choice_is_whole_where_a_run_is_small(tmp_path: Path) -> None:
    gathered = gather(read_run(write_run(tmp_path / "run", replace(LADDER["exp4"], num_test=30, steps=20))))
    assert gathered.rollouts == len(gathered.examples) < SHOWN


def test_a_large_run_shows_rare_results_whole_and_the_same_ones_every_time(tmp_path: Path) -> None:
    story = replace(LADDER["exp4"], num_eval=300, num_test=900)
    run = read_run(write_run(tmp_path / "run", story))
    gathered = gather(run)
    assert gathered.rollouts > SHOWN
    assert len(gathered.examples) == SHOWN
    assert sum(one.failure is not None for one in gathered.examples) == 3
    kinds = Counter((one.split, one.gold, one.predicted or one.outcome) for one in gathered.examples)
    assert min(kinds.values()) >= 1
    assert max(kinds.values()) <= 3 * SHOWN / len(kinds)
    assert len({one.step for one in gathered.examples if one.split == "train"}) > 50
    assert [one.prompt_id for one in gather(run).examples] == [one.prompt_id for one in gathered.examples]
