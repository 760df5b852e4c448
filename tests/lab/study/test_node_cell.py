"""A cell where it is sent: it runs as `tinsmith run` does, alone in its folder, and not where the folder is unseen."""

import fcntl
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from tinsmith.lab.study import node_cell
from tinsmith.lab.study.node_cell import OTHER_SOURCE, UNSEEN, Ended, NodeCell, run_cell


def sent_from(folder: Path) -> NodeCell:
    (folder / ".a.running").write_text("token")
    return NodeCell(
        name="a", arguments=("ladder/exp4", "steps=none"), threads=1, here=str(folder), sign=".a.running", token="token"
    )


@pytest.fixture
def cell(tmp_path: Path) -> NodeCell:
    return sent_from(tmp_path)


def test_a_node_that_does_not_see_the_folder_does_not_begin(cell: NodeCell, tmp_path: Path) -> None:
    for unseen in (
        replace(cell, token="another"),
        replace(cell, sign="elsewhere"),
        replace(cell, here=str(tmp_path / "elsewhere")),
    ):
        assert run_cell(unseen).refused == UNSEEN


def test_a_node_with_another_source_does_not_begin(cell: NodeCell) -> None:
    assert run_cell(replace(cell, source="0" * 64)).refused == OTHER_SOURCE


def test_what_a_run_says_last_is_brought_back(cell: NodeCell) -> None:
    ended = run_cell(cell)
    assert (ended.code, ended.refused) == (2, "")
    assert any("steps" in line for line in ended.said)
    assert len(ended.said) <= 5


def test_one_cell_is_run_by_one_process_at_a_time(
    cell: NodeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(cell: NodeCell, node: str, lock: IO[str]) -> Ended:
        del cell, lock
        with (tmp_path / ".a.running").open("r+") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Ended(node=node)

    monkeypatch.setattr(node_cell, "_run", run)
    assert run_cell(cell).code == 0


def test_a_run_is_part_of_no_ray_and_computes_as_the_study_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {}

    class Noted:
        def __init__(self, command: list[str], *, env: dict[str, str], **_: object) -> None:
            assert command[:5] == [sys.executable, "-m", "tinsmith", "run", "--exit-with-stdin"]
            given.update(env)
            raise FileNotFoundError

    monkeypatch.setenv("TINSMITH_ISA", "scalar")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    sent = sent_from(tmp_path)
    monkeypatch.setenv("TINSMITH_ISA", "avx2")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("OF_THE_NODE", "1")
    monkeypatch.setattr(subprocess, "Popen", Noted)
    with pytest.raises(FileNotFoundError):
        run_cell(sent)
    assert (given["TINSMITH_ISA"], given["OF_THE_NODE"]) == ("scalar", "1")
    assert not {"RAY_ADDRESS", "OMP_NUM_THREADS"} & {*given}


def test_a_run_ends_with_the_process_that_waits_for_it(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text("import threading\nprint('there', flush=True)\nthreading.Event().wait()\n")
    command = [sys.executable, "-m", "tinsmith", "run", "--exit-with-stdin", str(task)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stdout.readline() == b"there\n"
        run.stdin.close()
        assert run.wait() == 0
