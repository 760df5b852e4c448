"""Cells of a study on several machines: how many at once, what is sent again, and what is told of those that fail."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tinsmith.lab.study import cells as module
from tinsmith.lab.study.cells import TRIES, run_cells, shared_cores
from tinsmith.lab.study.node_cell import OTHER_SOURCE, UNSEEN, Ended, NodeCell
from tinsmith.lab.study.sizes import Cell
from tinsmith.studies.disruption.experiments import SFT_LORA
from tinsmith.types.errors import BackendError, ConfigError, LostError
from tinsmith.types.waits import Say

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
        run_cells(cells, told.append, send=machines.send, cores=cores, most=most)
        return told

    told: list[str] = []
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
    told = run(machines, cells, most, cores=(3,))
    assert sorted(cell.name for cell in machines.sent) == ["a", "b", "c", "d"]
    assert machines.most == at_once
    assert len(told) == len(cells)
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
        (Ended(node="one", code=2, said=("tinsmith: no", "  field: x")), "tinsmith: no field: x"),
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
        run_cells(cells, lambda _: None)
    assert caught.value.value == "b"
    assert sorted(ran) == ["a", "b", "c", "d"]
