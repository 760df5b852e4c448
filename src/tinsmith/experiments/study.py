"""A study: several experiments on the same papers and the same base, run one after the other and compared.

A run that is there already and is the same is not run again; one that was interrupted goes on.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tinsmith.experiments.conduct import conduct
from tinsmith.experiments.materials import Told
from tinsmith.experiments.plan import make_plan
from tinsmith.experiments.registry import find
from tinsmith.training.run_folder import IfExists

QUICKSTART = (
    "sft/lora_offset",
    "ladder/exp4",
    "ladder/exp5",
    "remedy/exp6",
)
"""What a newcomer sees: supervised training, the seeds' accuracy reward, their class weight, and the remedy."""

CONTROL = "control/shuffled_labels"
"""Without it the claim gate refuses every claim."""


def run_study(
    names: Sequence[str], out: Path, overrides: Mapping[str, str], told: Told
) -> list[Path]:
    """Run experiments into folders below `out`; return the folders, in order.

    Raises:
        ConfigError, DataError: one of them cannot begin.
        LostError: a server was lost; the same call goes on.
    """
    folders: list[Path] = []
    for name in names:
        folder = out / name.replace("/", "-")
        folders.append(folder)
        plan = make_plan(find(name), overrides)
        where = dataclasses.replace(
            plan.circumstances, log_path=folder, behavior_if_log_dir_exists=IfExists.RESUME
        )
        began = time.perf_counter()
        conduct(dataclasses.replace(plan, circumstances=where), told=told)
        told(f"{name}: {time.perf_counter() - began:.0f} s")
    return folders
