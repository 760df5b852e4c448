"""Records of a run on rubrics for its report and its replay, and what it keeps to itself."""

import json
from pathlib import Path

from tinsmith.lab.judge.records import CriteriaRecord
from tinsmith.lab.runs.files import TASKS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.user_task.entry import Asking
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.judge_choice import asking_circumstances
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.run_data import write_tasks
from tinsmith.studies.rubrics.dataset import builtin_dataset, split_tasks
from tinsmith.studies.rubrics.rlvr import rlvr


def test_every_task_is_written_with_its_side_and_read_again(tmp_path: Path) -> None:
    split = split_tasks(builtin_dataset().tasks, train_ratio=0.75, data_seed=42)
    task = rlvr()
    assert isinstance(task.reward, JudgedReward)
    (tmp_path / TASKS).write_text("half of an old")
    write_tasks(task.reward, split_items(task, Path(), 0), tmp_path / TASKS)
    notes: list[str] = []
    read = list(json_lines(tmp_path / TASKS, CriteriaRecord, notes))
    assert notes == []
    assert [each.task_id for each in read if each.split == "test"] == [task.task_id for task in split.test]
    by_id = {task.task_id: task for task in (*split.train, *split.test)}
    assert len(read) == len(by_id) == 96
    for each in read:
        assert each.prompt == by_id[each.task_id].prompt
        assert each.criteria == by_id[each.task_id].criteria
    assert [file.name for file in tmp_path.iterdir()] == [TASKS]


def test_how_a_judge_is_asked_is_told_without_what_may_be_secret(tmp_path: Path) -> None:
    asking = Asking(
        prices=tmp_path / "prices.toml", judge_base_url="http://me:sesame@judge:8000/v1?key=sesame#sesame", judge_rpm=7
    )
    lines = asking_circumstances(asking)
    assert lines["judge_base_url"] == "http://judge:8000/v1"
    assert (lines["prices"], lines["judge_rpm"]) == (str(tmp_path / "prices.toml"), 7)
    assert "sesame" not in json.dumps(lines)
    assert asking_circumstances(Asking())["judge_base_url"] is None
