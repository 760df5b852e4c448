"""A study: several experiments on the same papers and the same base, run and then compared.

Each is one `tinsmith run` in a process and with a server of its own, as many at once as there are cores; what they find
does not depend on that. A run that is there already and is the same is not run again; one that was interrupted goes on.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tinsmith.experiments.materials import gather
from tinsmith.experiments.plan import make_plan
from tinsmith.experiments.registry import find
from tinsmith.experiments.worlds import Told
from tinsmith.ops.extension import physical_cores
from tinsmith.training.run_folder import IfExists
from tinsmith.types.errors import ConfigError, LostError

QUICKSTART = (
    "sft/lora_offset",
    "ladder/exp4",
    "ladder/exp5",
    "remedy/exp6",
)
"""What a newcomer sees: supervised training, the seeds' accuracy reward, their class weight, and the remedy."""

CONTROL = "control/shuffled_labels"
"""Without it the claim gate refuses every claim."""

LOST = 3
"""Exit code of a run that lost its server or its judge, and can be resumed."""


def run_study(
    names: Sequence[str], out: Path, overrides: Mapping[str, str], told: Told
) -> list[Path]:
    """Run experiments into folders below `out`; return the folders, in order.

    Raises:
        ConfigError, DataError: one of them cannot begin.
        LostError: a server was lost; the same call goes on.
    """
    plans = [make_plan(find(name), overrides) for name in names]
    for plan in plans:
        gather(plan, told)  # what they share is built once, before they all look for it
    at_once = min(len(names), physical_cores())
    threads = {"threads": str(max(1, physical_cores() // at_once)), **overrides}
    folders = [out / name.replace("/", "-") for name in names]

    def run(name: str, folder: Path) -> None:
        began = time.perf_counter()
        _run(name, folder, threads)
        told(f"{name}: {time.perf_counter() - began:.0f} s")

    with ThreadPoolExecutor(at_once) as pool:
        running = [pool.submit(run, *one) for one in zip(names, folders, strict=True)]
        try:
            for one in running:
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return folders


def _run(name: str, folder: Path, overrides: Mapping[str, str]) -> None:
    changes = {
        **overrides,
        "log_path": str(folder),
        "behavior_if_log_dir_exists": IfExists.RESUME.value,
    }
    command = [sys.executable, "-m", "tinsmith", "run", name]
    command += [f"{key}={value}" for key, value in changes.items()]
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    if code == LOST:
        raise LostError(
            f"{name} lost its server",
            field="log_path",
            value=str(folder),
            fix="the same command goes on from the last checkpoint",
        )
    if code != 0:
        raise ConfigError(
            f"{name} stopped with exit code {code}; why stands above",
            field="log_path",
            value=str(folder),
        )
