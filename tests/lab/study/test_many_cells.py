"""Cells of a study on several machines: how many at once, what is sent again, and what is told of those that fail."""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import pytest

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.study import cells as module
from tinsmith.lab.study import node_cell
from tinsmith.lab.study.cells import TRIES, prepared, run_cells, shared_cores
from tinsmith.lab.study.node_cell import OTHER_SOURCE, UNSEEN, Ended, NodeCell, run_cell
from tinsmith.lab.study.sizes import Cell, StudyArm, StudyCells, cells_of
from tinsmith.studies import dead_groups
from tinsmith.studies.disruption.experiments import SFT_LORA
from tinsmith.types.errors import BackendError, ConfigError, LostError
from tinsmith.types.waits import Say, unsaid

Answer = Ended | Exception
DONE = Ended(node="one")
GONE = LostError("its task was lost")


@dataclass
class Fake:
    """Machines that answer as they are told, the cell that was sent last first."""

    answers: dict[str, list[Answer]] = field(default_factory=dict[str, list[Answer]])
    sent: list[NodeCell] = field(default_factory=list[NodeCell])
    most: int = 0
    _open: list[tuple[Future[Ended], NodeCell]] = field(default_factory=list[tuple[Future[Ended], NodeCell]])

    def send(self, cell: NodeCell) -> Future[Ended]:
        assert Path(cell.sign).read_text() == cell.token
        self.sent.append(cell)
        future = Future[Ended]()
        self._open.append((future, cell))
        self.most = max(self.most, len(self._open))
        return future

    def end_one(self) -> None:
        future, cell = self._open.pop()
        left = self.answers.get(cell.name, [])
        answer = left.pop(0) if left else DONE
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    def all_wait(cells: Sequence[Cell], say: Say) -> list[Cell]:
        del say
        return list(cells)

    monkeypatch.setattr(module, "prepared", all_wait)
    return [Cell(experiment=SFT_LORA, overrides={"seed": name}, folder=tmp_path / "cells" / name) for name in "abcd"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Run cells on fake machines; where the driver would wait, one of them ends."""

    def run(machines: Fake, cells: Sequence[Cell], most: int = 0, cores: Sequence[int] = (2,)) -> list[str]:
        def wait(running: dict[Future[Ended], object], **_: object) -> object:
            machines.end_one()
            return {future for future in running if future.done()}, set[object]()

        monkeypatch.setattr(module, "wait", wait)
        run_cells(cells, messages.append, send=machines.send, cores=cores, most=most)
        return messages

    messages: list[str] = []
    return run


@pytest.mark.parametrize(
    ("cores", "cells", "most", "at_once", "threads"),
    [
        ([2], 4, 0, 2, 1),
        ([8], 3, 0, 3, 2),
        ([8], 1, 0, 1, 8),
        ([8], 0, 0, 1, 8),
        ([8], 9, 2, 2, 4),
        ([8, 8], 2, 0, 2, 8),
        ([8, 8], 4, 0, 4, 4),
        ([8, 4, 0], 4, 0, 4, 2),
        ([2], 4, 9, 2, 1),
    ],
)
def test_cores_are_shared_among_the_cells_that_run_at_once(
    cores: Sequence[int], cells: int, most: int, at_once: int, threads: int
) -> None:
    assert shared_cores(cores, cells, most) == (at_once, threads)


def test_a_cluster_without_cores_is_refused() -> None:
    with pytest.raises(BackendError):
        shared_cores([0], 1, 0)


@pytest.mark.parametrize(("most", "at_once"), [(0, 3), (2, 2), (1, 1)])
def test_every_cell_is_run_and_no_more_at_once_than_may(
    cells: list[Cell], run: Callable[..., list[str]], most: int, at_once: int
) -> None:
    machines = Fake()
    printed = run(machines, cells, most, cores=(3,))
    assert sorted(cell.name for cell in machines.sent) == ["a", "b", "c", "d"]
    assert machines.most == at_once
    assert len(printed) == len(cells)
    sent = machines.sent[0]
    assert {f"threads={3 // at_once}", "seed=a", f"log_path={cells[0].folder}"} <= {*sent.arguments}
    assert sent.threads == 3 // at_once
    assert not list(cells[0].folder.parent.iterdir())  # nothing is left beside the cells


@pytest.mark.parametrize("lost", [GONE, Ended(node="one", code=3), Ended(node="one", code=-9)], ids=str)
def test_what_is_lost_is_sent_again(cells: list[Cell], run: Callable[..., list[str]], lost: Answer) -> None:
    machines = Fake({"b": [lost] * (TRIES - 1)})
    run(machines, cells)
    assert [cell.name for cell in machines.sent].count("b") == TRIES
    assert len(machines.sent) == len(cells) + TRIES - 1


def test_what_is_lost_each_time_keeps_no_other_from_its_end(cells: list[Cell], run: Callable[..., list[str]]) -> None:
    machines = Fake({"b": [GONE] * 9})
    with pytest.raises(LostError) as caught:
        run(machines, cells)
    assert caught.value.value == "b"
    assert [cell.name for cell in machines.sent].count("b") == TRIES
    assert {cell.name for cell in machines.sent} == {*"abcd"}
    assert not list(cells[0].folder.parent.iterdir())


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (Ended(node="one", code=2, last_lines=("tinsmith: no", "  field: x")), "tinsmith: no field: x"),
        (Ended(node="blind", refused=UNSEEN), "blind"),
        (Ended(node="old", refused=OTHER_SOURCE), "old"),
        (ConfigError("its node cannot run it"), "cannot run it"),
    ],
)
def test_what_fails_is_not_sent_again_and_is_told_at_the_end(
    cells: list[Cell], run: Callable[..., list[str]], failed: Answer, told: str
) -> None:
    machines = Fake({"a": [failed], "c": [GONE] * TRIES})
    with pytest.raises(ConfigError) as caught:
        run(machines, cells)
    assert {*str(caught.value.value).split(", ")} == {"a", "c"}
    assert told in caught.value.what or "lost" in caught.value.what
    assert [cell.name for cell in machines.sent].count("a") == 1
    assert {cell.name for cell in machines.sent} == {*"abcd"}


def test_a_cell_that_is_lost_here_can_be_resumed_by_the_same_command(
    cells: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def lost(cell: NodeCell) -> Ended:
        ran.append(cell.name)
        return Ended(node="here", code=3 if cell.name == "b" else 0)

    monkeypatch.setattr(module, "run_cell", lost)
    with pytest.raises(LostError) as caught:
        run_cells(cells, unsaid)
    assert caught.value.value == "b"
    assert sorted(ran) == ["a", "b", "c", "d"]


def test_lines_on_cells_name_arm_rate_and_seed(cells: list[Cell], monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(cell: NodeCell) -> Ended:
        return Ended(node="here", code=int(cell.name == "b"))

    arm = StudyArm("rl", "RL, bonus", cells[0].experiment, (1e-3, 2e-3))
    study = StudyCells(name="study", question="?", arms=(arm,), shared={}, seeds=(1,))
    labels = [*(cell.label for cell in study.tuning(arm).values()), study.cell(replace(arm, rates=()), None, 1).label]
    assert labels == ["RL, bonus, rate 0.001, seed 0", "RL, bonus, rate 0.002, seed 0", "RL, bonus, seed 1"]
    monkeypatch.setattr(module, "run_cell", ended)
    lines: list[str] = []
    with pytest.raises(ConfigError):
        run_cells([replace(cells[0], label=labels[0]), replace(cells[1], label=labels[2])], lines.append)
    assert f"{labels[0]}: 0 s on here" in lines
    assert f"{labels[2]}: stopped with exit code 1 on here" in lines


def test_an_interrupted_study_interrupts_its_runs_which_no_terminal_does_and_waits_for_them(
    cells: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Ended] = []
    wait, waits = module.wait, iter([True])
    begun, task = tmp_path / "begun", tmp_path / "task.py"
    task.write_text(
        "import os, threading\n"
        f"with open({str(begun)!r}, 'w') as begun:\n    begun.write(str(os.getpgrp() == os.getpid()))\n"
        "threading.Event().wait()\n"
    )
    os.mkfifo(begun)

    def interrupted(*running: object, **how: object) -> object:
        assert how["timeout"]  # a wait without an end is not interrupted once polars is imported
        if next(waits, False):
            assert begun.read_text() == "True"  # a group of its own, which Ctrl-C in a terminal does not reach
            raise KeyboardInterrupt
        return wait(*running, **how)

    def arguments(*_: object) -> list[str]:
        return [str(task)]

    def noted(cell: NodeCell) -> Ended:
        ended.append(run_cell(cell))
        return ended[-1]

    monkeypatch.setattr(module, "wait", interrupted)
    monkeypatch.setattr(module, "_arguments", arguments)
    monkeypatch.setattr(module, "run_cell", noted)
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells[:1], lines.append)
    assert [one.code for one in ended] == [130]
    assert sum(line.startswith("interrupted") for line in lines) == 1


def test_a_study_that_is_interrupted_again_waits_for_no_run(cells: list[Cell], monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = threading.Event(), threading.Event()

    def running(cell: NodeCell) -> Ended:
        begun.set()
        assert over.wait(60)
        return Ended(node=cell.name)

    def interrupted(*_: object, **__: object) -> None:
        assert begun.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_cell", running)
    monkeypatch.setattr(module, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells[:1], unsaid)
    over.set()


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
    assert any("steps" in line for line in ended.last_lines)
    assert len(ended.last_lines) <= 5


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
        assert run.stdout.readline() == b"there\n"
        run.stdin.close()
        assert run.wait() == 0


def test_the_base_of_every_task_is_built_before_runs_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def gather(plan: Plan, say: Say) -> None:
        del say
        built.append(str(plan.experiment.subject.own_keys["fails"]))

    monkeypatch.setattr(module, "gather", gather)
    study = cells_of(dead_groups.study, {"size": "smallest", "out": str(tmp_path / "study")})
    every = [cell for arm in study.arms for cell in study.reported(arm, None)]
    assert len(every) == 6
    assert prepared(every, unsaid) == every
    assert built == ["always", "chance"]
