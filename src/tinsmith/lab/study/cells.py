"""The cells of a study: several runs on the same papers and the same base, of which each may be there already.

Each is one `tinsmith run` in a process and with a server of its own, as many at once as there are cores; what they find
does not depend on that. A run that is there already and is the same is not run again; one that was interrupted goes on.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tinsmith.lab.experiment.manifest import Prepared, require_same_base, require_same_run
from tinsmith.lab.experiment.materials import gather
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.runs.existing_run import IfExists
from tinsmith.lab.runs.files import MANIFEST
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.study.arms import Cell
from tinsmith.ops.extension import physical_cores
from tinsmith.types.errors import ConfigError, LostError

_LOCK = ".lock"

RunCells = Callable[[Sequence[Cell], Say], None]
"""Runs cells that have not come to their end yet."""

LOST = 3
"""Exit code of a run that lost its server or its judge, and can be resumed."""


@contextmanager
def sole_process(out: Path) -> Generator[None, None, None]:
    """Be the one process that runs a study into `out`; a lock file in it, which ends with the process."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                "another process is running this study",
                field="out",
                value=str(out),
                fix="wait until it ends, or name another folder",
            ) from None
        yield


def run_cells(cells: Sequence[Cell], say: Say) -> None:
    """Run every cell that has not come to its end yet."""
    waiting = prepared(cells, say)
    if not waiting:
        return
    at_once = min(len(waiting), physical_cores())
    threads = max(1, physical_cores() // at_once)

    def run(cell: Cell) -> None:
        began = time.perf_counter()
        _run(cell, threads)
        say(f"{cell.folder.name}: {time.perf_counter() - began:.0f} s")

    with ThreadPoolExecutor(at_once) as pool:
        running = [pool.submit(run, cell) for cell in waiting]
        try:
            for one in running:
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def prepared(cells: Sequence[Cell], say: Say) -> list[Cell]:
    """Return the cells that have not come to their end yet, when what they share is there."""
    waiting = [cell for cell in cells if not _ended(cell, say)]
    plans = [make_plan(cell.experiment, cell.overrides) for cell in waiting]
    if plans:
        gather(plans[0], say)  # what they share is built once, before they all look for it
    return waiting


def arguments(cell: Cell, threads: int) -> list[str]:
    """Return what stands after `tinsmith run`; with so many threads, unless the study was given a number of them."""
    changes = {
        "threads": str(threads),
        **cell.overrides,
        "log_path": str(cell.folder),
        "behavior_if_log_dir_exists": IfExists.RESUME.value,
    }
    return replace(cell, overrides=changes).command


def _ended(cell: Cell, say: Say) -> bool:
    """True if a cell's folder holds this very run, finished."""
    manifest = RunFolder(cell.folder).read_json(MANIFEST)
    if not manifest:
        return False
    plan = make_plan(cell.experiment, cell.overrides)
    prepared = Prepared(plan, gather(plan, say))
    try:
        require_same_run(manifest, prepared)
        require_same_base(manifest, prepared.materials)
    except ConfigError as error:
        raise ConfigError(
            f"{cell.folder.name}: {error.what}",
            field=error.field,
            value=error.value,
            allowed=error.allowed,
            fix="another folder for the study, or delete that of this run",
        ) from None
    return manifest.get("status") == Status.FINISHED.value


def _run(cell: Cell, threads: int) -> None:
    command = [sys.executable, "-m", "tinsmith", "run", *arguments(cell, threads)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        code = run.wait()
    except KeyboardInterrupt:
        run.wait()  # it was interrupted too, and puts its server and its folder in order
        raise
    if code == LOST:
        raise LostError(
            f"{cell.experiment.name} lost its server",
            field="log_path",
            value=str(cell.folder),
            fix="the same command goes on from the last checkpoint",
        )
    if code != 0:
        raise ConfigError(
            f"{cell.experiment.name} stopped with exit code {code}; its own message is above",
            field="log_path",
            value=str(cell.folder),
        )
