"""A run on rubrics: its page is there when the command ends, and it is made again from its folder, bit for bit."""

import json
import os
from pathlib import Path

import pytest
from rlvr_small import KEYS

from command_line import command
from tinsmith.lab.runs.files import MANIFEST
from tinsmith.studies.rubrics.dataset import builtin_dataset

SMALL = {
    **{**KEYS, "group_size": "2", "groups_per_batch": "2", "max_tokens": "6", "eval_every": "1", "save_every": "0"},
    **{"model_name": "tinsmith/nano", "data_path": "tasks.jsonl"},  # it writes nonsense, and needs no building
}

pytestmark = pytest.mark.whole


def test_a_run_ends_with_its_page_and_a_replay_is_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, folder = tmp_path / "tasks.jsonl", tmp_path / "run"
    records = [
        {"task_id": task.task_id, "prompt": task.prompt, "rubrics": list(task.criteria)}
        for task in builtin_dataset().tasks[:12]
    ]
    data.write_text("".join(json.dumps(each) + "\n" for each in records))
    changes = [f"{key}={value}" for key, value in SMALL.items()]
    ran = command(capsys, "run", "rlvr", f"log_path={folder}", *changes, code=0)
    assert str(folder / "report.html") in ran.out
    page = (folder / "report.html").read_text()
    assert "held-out items" in page
    around = json.loads((folder / MANIFEST).read_text())["circumstances"]
    assert around["files"] == {"data_path": str(data)}
    assert around["judge_concurrency"] == 64

    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")  # the data are found by their whole path
    lines = command(capsys, "replay", folder, code=0)
    assert "equal: 3 recorded steps, bit for bit" in lines.out
