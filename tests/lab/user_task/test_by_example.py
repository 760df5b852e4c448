"""A task with right answers is trained by example, or first by example and then by reward; forgetting is watched."""

from pathlib import Path

import pytest
from own_task import NANO, lines, whole

from command_line import Run
from tinsmith.cli.registered import plan_of
from tinsmith.lab.forgetting import general_texts
from tinsmith.types.errors import ConfigError

TASK = """\
from pathlib import Path

from tinsmith import Task


def right(item, text):
    return float(text == item["says"])


def answer(item):
    if (Path(__file__).parent / "broken").exists():
        raise OSError("the answers are not there")
    return item["says"]


task = Task(
    items=[{"id": f"item-{n}", "n": n, "says": "ab"[n % 2]} for n in range(12)],
    prompt="Item {n}:",
    held_out=0.5,
    reward=right,
    answer=answer,
)
"""
MEAN_DROP = "eval/general/change"


GROUPS = ("group_size", "groups_per_batch")
pytestmark = pytest.mark.usefixtures("place")


def test_a_task_is_trained_by_example_and_evaluated_like_any_other(run: Run, tmp_path: Path) -> None:
    run(without=GROUPS, kind="task_sft", batch_size="4", log_path="run", code=0)
    metrics = lines(tmp_path / "run", "metrics.jsonl")
    assert all("train/nll" in one for one in metrics[:-1])
    assert {"eval/reward/right", "eval_greedy/reward/right"} <= metrics[-1].keys()
    assert {one["split"] for one in lines(tmp_path / "run", "rollouts.jsonl")} == {"eval", "eval_greedy"}
    assert (tmp_path / "run" / "report.html").is_file()


def test_the_first_steps_are_supervised_and_the_others_rewarded(run: Run, tmp_path: Path) -> None:
    run(sft_steps="1", sft_batch_size="3", sft_learning_rate="1e-3", log_path="run", code=0)
    metrics = lines(tmp_path / "run", "metrics.jsonl")
    assert ["train/nll" in one for one in metrics[:3]] == [True, False, False]
    rewarded = {one["step"] for one in lines(tmp_path / "run", "rollouts.jsonl") if one["split"] == "train"}
    assert rewarded == {1, 2}


def test_a_fresh_adapter_has_forgotten_nothing_and_a_trained_one_has(run: Run, tmp_path: Path) -> None:
    where = {"kind": "task_sft", "watch_forgetting": "true", "batch_size": "4"}
    assert run(without=GROUPS, **where, steps="0", log_path="fresh").code == 0
    assert run(without=GROUPS, **where, learning_rate="0.05", steps="1", log_path="trained").code == 0
    texts = whole(tmp_path / "fresh", "general.json")["texts"]
    assert [one["name"] for one in texts] == [one["name"] for one in general_texts()]
    assert all(one["before"] == one["after"] < 0 and one["tokens"] > 0 for one in texts)
    changed = whole(tmp_path / "trained", "general.json")["texts"]
    assert [one["before"] for one in changed] == [one["before"] for one in texts]
    mean = sum(one["after"] - one["before"] for one in changed) / len(changed)
    assert mean < 0
    assert lines(tmp_path / "trained", "metrics.jsonl")[-1][MEAN_DROP] == pytest.approx(mean)
    assert MEAN_DROP not in lines(tmp_path / "trained", "metrics.jsonl")[0]


def test_answers_that_fail_end_the_run_and_say_of_which_item(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    ran = run(without=GROUPS, kind="task_sft", log_path="run", code=3)
    assert "item-" in ran.err
    assert "the answers are not there" in ran.err


@pytest.mark.parametrize("changes", [{"kind": "task_sft"}, {"sft_steps": "1", "steps": "3"}])
def test_a_task_without_answers_is_not_taught_by_example(tmp_path: Path, changes: dict[str, str]) -> None:
    (tmp_path / "mine.py").write_text(TASK.replace("    answer=answer,\n", ""))
    with pytest.raises(ConfigError) as caught:
        plan_of("mine.py", {**changes, "model_name": NANO, "learning_rate": "1e-3"})
    assert caught.value.field in changes
