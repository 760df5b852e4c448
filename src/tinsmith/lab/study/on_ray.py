"""Runs the cells of a study as tasks of a Ray that is started here for it, or joined.

Ray runs no task again by itself: what was lost, and how often it is sent again, is decided in one place.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tinsmith.engine.cluster.ray_runtime import LEAST_OBJECT_STORE, Cluster, Node, join, start_local
from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.cells import RunCells, run_cells
from tinsmith.lab.study.cluster_keys import LOCAL, AskedCluster, asked_cluster, without_cluster
from tinsmith.lab.study.many_cells import run_cells_on
from tinsmith.lab.study.node_cell import Ended, NodeCell, run_cell
from tinsmith.ops.extension import physical_cores
from tinsmith.types.errors import ConfigError, LostError


@contextmanager
def runner(asked: AskedCluster | None, here: RunCells) -> Generator[RunCells, None, None]:
    """Return what runs cells: on the cluster that is asked for, else `here`."""
    if asked is None:
        yield here
        return
    if asked.address == LOCAL:
        cluster = start_local(physical_cores(), LEAST_OBJECT_STORE)
    else:
        cluster = join(asked.address)
    try:
        yield partial(_run, RayMachines(cluster), asked.at_once)
    finally:
        cluster.close()  # tasks that still run end with it


def _run(machines: RayMachines, most: int, cells: Sequence[Cell], say: Say) -> None:
    run_cells_on(machines, cells, say, most=most)


@dataclass(frozen=True, slots=True)
class RayMachines:
    """The nodes of a Ray that this process is part of; see Machines."""

    cluster: Cluster

    def nodes(self) -> Sequence[Node]:
        """See Machines."""
        return self.cluster.nodes()

    def send(self, cell: NodeCell) -> Future[Ended]:
        """See Machines."""
        import ray

        task: Any = ray.remote(run_cell).options(
            name=cell.name, num_cpus=cell.threads, max_retries=0, scheduling_strategy="SPREAD"
        )
        ended = Future[Ended]()
        task.remote(cell).future().add_done_callback(partial(_pass_on, ended))
        return ended


def _pass_on(ended: Future[Ended], theirs: Future[Ended]) -> None:
    """End our future as Ray's ended, with an error of ours."""
    from ray import exceptions

    try:
        ended.set_result(theirs.result())
    except (exceptions.RayTaskError, exceptions.RuntimeEnvSetupError, exceptions.TaskUnschedulableError) as error:
        ended.set_exception(ConfigError(f"its node cannot run it: {_last_line(error)}"))
    except exceptions.RayError as error:
        ended.set_exception(LostError(f"its task was lost: {type(error).__name__}"))


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def run_side_by_side(
    experiments: Sequence[Experiment], out: Path, overrides: Mapping[str, str], say: Say
) -> list[Path]:
    """Run experiments into folders below `out`, on a cluster where one is named; return the folders, in order."""
    own = without_cluster(overrides)
    cells = [Cell(experiment=one, overrides=own, folder=out / one.name.replace("/", "-")) for one in experiments]
    with runner(asked_cluster(overrides), run_cells) as run:
        run(cells, say)
    return [cell.folder for cell in cells]
