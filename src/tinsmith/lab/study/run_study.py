"""Several experiments on the same papers and the same base, run side by side into one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.cluster_keys import asked_cluster, without_cluster
from tinsmith.lab.study.on_ray import runner


def run_study(experiments: Sequence[Experiment], out: Path, overrides: Mapping[str, str], say: Say) -> list[Path]:
    """Run experiments into folders below `out`, on a cluster where one is named; return the folders, in order.

    Raises:
        ConfigError, DataError: one of them cannot begin, or the cluster cannot be had.
        BackendError: a Ray did not start.
        LostError: a server was lost; the same call goes on.
    """
    own = without_cluster(overrides)
    cells = [Cell(experiment=one, overrides=own, folder=out / one.name.replace("/", "-")) for one in experiments]
    with runner(asked_cluster(overrides), run_cells) as run:
        run(cells, say)
    return [cell.folder for cell in cells]
