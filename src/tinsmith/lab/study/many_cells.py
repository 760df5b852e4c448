"""Runs the cells of a study on the machines of a cluster, several at once; what they find does not depend on it.

A cell whose task is lost is sent again. One that fails keeps no other from its end; then all that failed are told.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tinsmith.engine.cluster.ray_runtime import Node
from tinsmith.lab.live.progress import Say, duration
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.cells import LOST, arguments, prepared
from tinsmith.lab.study.node_cell import Ended, NodeCell
from tinsmith.types.errors import BackendError, ConfigError, LostError

TRIES: Final = 3
"""How often a cell is sent at most: a task that is lost is run again twice."""


class Machines(Protocol):
    """What takes cells."""

    def nodes(self) -> Sequence[Node]:
        """Return the machines that are there."""
        ...

    def send(self, cell: NodeCell) -> Future[Ended]:
        """Have a cell run on one of them, when as many cores are free as it has threads.

        The future raises LostError where its task was lost, ConfigError where it could not begin.
        """
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """How the cores of a cluster are shared out."""

    at_once: int
    """Cells."""
    threads: int
    """Of each."""

    @classmethod
    def of(cls, nodes: Sequence[Node], cells: int, most: int) -> Share:
        """Share nodes among cells, at most `most` of them at once; 0: one for each core."""
        cores = [node.cores for node in nodes if node.cores > 0]
        if not cores:
            raise BackendError("no node of this cluster has a core to give away", field="ray")
        at_once = min(cells, sum(cores), most or cells)
        on_a_node = -(-at_once // len(cores))
        return cls(at_once, max(1, min(cores) // on_a_node))


@dataclass(slots=True)
class _Waiting:
    """A cell that has not come to its end."""

    cell: NodeCell
    sent: int = 0


@dataclass(slots=True)
class _Failures:
    """What did not come to its end, and why."""

    why: dict[str, str] = field(default_factory=dict[str, str])
    all_lost: bool = True
    """Whether the same call may well do better."""

    def error(self, cells: int) -> ConfigError | LostError:
        """Return what a person is told."""
        name, why = next(iter(self.why.items()))
        kind = LostError if self.all_lost else ConfigError
        return kind(
            f"{len(self.why)} of {cells} cells did not come to their end; {name}: {why}",
            field="cells",
            value=", ".join(self.why),
            fix="the same command goes on with them" if self.all_lost else "see the lines above",
        )


def run_cells_on(machines: Machines, cells: Sequence[Cell], say: Say, *, most: int = 0) -> None:
    """Run every cell that has not come to its end yet; at most `most` at once, 0: as many as there are cores."""
    waiting = prepared(cells, say)
    if not waiting:
        return
    share = Share.of(machines.nodes(), len(waiting), most)
    with _signed(waiting, share.threads) as signed:
        failures = _run(machines, signed, share.at_once, say)
    if failures.why:
        raise failures.error(len(waiting))


@contextmanager
def _signed(cells: Sequence[Cell], threads: int) -> Generator[list[NodeCell], None, None]:
    """Put a sign beside the folder of each, and take it away at the end."""
    token, signs = secrets.token_hex(16), list[Path]()
    made: list[NodeCell] = []
    try:
        for cell in cells:
            sign = cell.folder.with_name(f".{cell.folder.name}.running")
            sign.parent.mkdir(parents=True, exist_ok=True)
            sign.write_text(token)
            signs.append(sign)
            made.append(
                NodeCell(
                    name=cell.folder.name,
                    arguments=tuple(arguments(cell, threads)),
                    threads=threads,
                    here=str(Path.cwd()),
                    sign=str(sign),
                    token=token,
                )
            )
        yield made
    finally:
        for sign in signs:
            sign.unlink(missing_ok=True)


def _run(machines: Machines, cells: Sequence[NodeCell], at_once: int, say: Say) -> _Failures:
    queue = deque(_Waiting(cell) for cell in cells)
    running: dict[Future[Ended], _Waiting] = {}
    failures = _Failures()
    while queue or running:
        while queue and len(running) < at_once:
            one = queue.popleft()
            one.sent += 1
            running[machines.send(one.cell)] = one
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            one = running.pop(future)
            name = one.cell.name
            try:
                ended = future.result()
            except LostError as error:
                why, lost = error.what, True
            except ConfigError as error:
                why, lost = error.what, False
            else:
                if ended.refused is None and ended.code == 0:
                    say(f"{name}: {duration(ended.seconds)} on {ended.node}")
                    continue
                why, lost = _why(ended), _lost(ended)
            if lost and one.sent < TRIES:
                say(f"{name}: {why}; it is run again")
                queue.appendleft(one)
                continue
            say(f"{name}: {why}")
            failures.why[name] = why
            failures.all_lost &= lost
    return failures


def _lost(ended: Ended) -> bool:
    """Whether the run may come to its end elsewhere, or later."""
    return ended.refused is None and (ended.code == LOST or ended.code < 0)


def _why(ended: Ended) -> str:
    if ended.refused is not None:
        return f"node {ended.node} cannot run it: {ended.refused}"
    last = f": {' '.join(line.strip() for line in ended.said)}" if ended.said else ""
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    return f"stopped with {how} on {ended.node}{last}"
