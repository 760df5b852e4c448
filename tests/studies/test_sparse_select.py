"""The study of sparse selection: what its arms may draw, other tasks, and a tiny run of it on a random model."""

import json
from pathlib import Path

import pytest
from label_runs import in_process
from small_slice import Made

from command_line import keys_in
from tinsmith.cli.registered import plan_of, source_of
from tinsmith.lab.experiment.audit import audit
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import TABLES
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.sizes import StudyArm, cells_of, keys_of
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.sparse_select import GOOD, GRPO, SPARSE, TENTH, study
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

TASK = """
from tinsmith import Task

task = Task(
    items=[{"id": str(i)} for i in range(8)],
    held_out=[{"id": f"h{i}"} for i in range(4)],
    prompt="Say something about {id}.",
    reward=lambda item, text: len(text) / 100,
)
"""
TINY = keys_in(
    "seeds=1 steps=2 sparse_steps=2 sparse_rates=1e-3 groups_per_batch=2 group_size=10 batch_size=4 kept_items=2 "
    "entropy_threshold=5.5 learning_rate=1e-3 eval_samples=1 max_tokens=5 lora_rank=4"
)


def arms(**given: str) -> dict[str, StudyArm]:
    return {arm.name: arm for arm in cells_of(study, given, source_of).arms}


def test_arms_draw_as_many_rollouts_as_grpo_or_a_tenth() -> None:
    keys = {name: arm.keys for name, arm in arms().items()}
    drawn = {name: int(keys[name]["asked_items"]) * int(keys[name]["base_rollouts"]) for name in (SPARSE, TENTH, GOOD)}
    total = 120 * 16 * 8
    assert 0.95 * total < drawn[SPARSE] == drawn[GOOD] <= total
    assert 0.95 * total / 10 < drawn[TENTH] <= total / 10
    assert (keys[GOOD]["pushed"], keys[TENTH]["base_rollouts"]) == ("good", "20")


def test_a_pretrained_model_is_asked_for_sums_and_the_same_numbers_stand_for_no_other_task() -> None:
    sums = arms(at="small")[GRPO]
    assert (sums.found_at, sums.task_keys["config.max_terms"]) == ("reasoning_gym", "3")
    roads = arms(at="small", task="crossroads")[GRPO]
    assert not roads.task_keys
    assert "max_tokens" not in roads.keys


def test_rates_and_steps_of_both_methods_are_apart() -> None:
    made = arms(learning_rate="2e-3", steps="30", sparse_rates="5e-4")
    assert (made[GRPO].rates, made[SPARSE].rates) == ((2e-3,), (5e-4,))
    assert (made[GRPO].keys["steps"], made[TENTH].keys["steps"]) == ("30", "60")
    several = cells_of(study, {}, source_of)
    tried = {arm.name: len(several.tuning(arm)) for arm in several.arms}
    assert tried == {GRPO: 0, SPARSE: 4, TENTH: 4, GOOD: 4}
    (cell, *_) = several.tuning(several.arms[1]).values()
    assert (cell.overrides["examined"], cell.overrides["seed"]) == ("validation", "0")


def test_the_keys_of_both_methods_may_be_given() -> None:
    assert {"eval_every", "entropy_threshold", "learning_rate", "group_size"} <= keys_of(study).passed_on


@pytest.fixture(scope="module")
def folder(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sparse")
    (place / "odd.py").write_text(TASK)
    given = {"task": str(place / "odd.py"), "out": str(place / "out"), **TINY, "model_name": str(made.base)}
    few = Draws(claims=Bootstrap(draws=100), tables=Bootstrap(draws=100))
    return run_study(study, given, print, open_source=source_of, run=in_process, draws=few)


def test_a_table_says_how_many_rollouts_each_arm_drew_and_what_share_of_tokens_was_pushed(folder: Path) -> None:
    lines = (folder / TABLES).read_text().split("## Arms")[1].split("##")[0].splitlines()
    rows = {cells[1].split(" (")[0].strip(): cells for cells in (line.split("|") for line in lines) if len(cells) > 7}
    assert [rows[name][5].strip() for name in ("GRPO", "sparse selection")] == ["40", "40"]
    assert rows["sparse selection, a tenth of the rollouts"][5].strip() == "4"
    assert rows["GRPO"][7].strip() == "all"
    assert 0.0 < float(rows["sparse selection"][7]) < 1.0


def test_a_run_goes_on_where_it_was_stopped_with_the_same_bits(folder: Path, made: Made, tmp_path: Path) -> None:
    (cell,) = folder.glob("cells/sparse-*")
    config = json.loads((cell / "config.json").read_text())
    given = {key: str(value) for key, value in config["overrides"].items()}
    given |= {"model_name": str(made.base), "threads": "1", "log_path": str(tmp_path / "run")}
    given |= {"behavior_if_log_dir_exists": "resume", "save_every": "1", "quiet": "true"}
    task = str(folder.parent / "odd.py")
    for stop in ("1", "0"):
        conduct(plan_of(task, {**given, "stop_after": stop}), say=unsaid)
    ends = [json.loads((place / "manifest.json").read_text())["hashes"] for place in (cell, tmp_path / "run")]
    assert ends[0]["weights_sha256"] == ends[1]["weights_sha256"]
    assert ends[0]["rollouts_sha256"] == ends[1]["rollouts_sha256"]
    lines = [(place / "metrics.jsonl").read_text().splitlines() for place in (cell, tmp_path / "run")]
    assert lines[0] == lines[1]
    # Its rollouts are the base's: an audit starts a server for them, and compares what was computed from a checkpoint.
    done = audit(tmp_path / "run", plan_of, steps=len(lines[0]), seed=0, end=True, say=unsaid)
    assert done.passed, done
    assert len(done.drawn) > 1
