from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import LADDER, write_run

from tinsmith.lab.results.arms import SHOWN, gather
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Cause, Split


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
    told = gather(run).disagreements()
    assert any(sentence.startswith("test/label_match at step 60 is") for sentence in told)


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
    assert last is not None
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
    assert gathered.rollouts == len(gathered.shown) < SHOWN


def test_a_large_run_shows_rare_results_whole_and_the_same_ones_every_time(tmp_path: Path) -> None:
    story = replace(LADDER["exp4"], num_eval=300, num_test=900)
    run = read_run(write_run(tmp_path / "run", story))
    gathered = gather(run)
    assert gathered.rollouts > SHOWN
    assert len(gathered.shown) == SHOWN
    assert sum(one.failure is not None for one in gathered.shown) == 3
    kinds = Counter((one.split, one.gold, one.predicted or one.outcome) for one in gathered.shown)
    assert min(kinds.values()) >= 1
    assert max(kinds.values()) <= 3 * SHOWN / len(kinds)
    assert len({one.step for one in gathered.shown if one.split == "train"}) > 50
    assert [one.prompt_id for one in gather(run).shown] == [one.prompt_id for one in gathered.shown]
