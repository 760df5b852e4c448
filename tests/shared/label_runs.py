"""Short runs on the labels of a small slice: their keys, and how they are conducted."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from small_slice import Made

from tinsmith.cli.registered import find, plan_of
from tinsmith.lab.experiment.conduct import Conducted, conduct
from tinsmith.lab.experiment.experiment import Plan, make_plan
from tinsmith.lab.runs.files import MANIFEST
from tinsmith.lab.study.sizes import Cell
from tinsmith.types.waits import Say, unsaid

EXPERIMENT = "remedy/exp6"
RL = {
    "steps": "4",
    "gradient": "exact",  # it learns from every paper, also where a base can hardly write
    "groups_per_batch": "3",
    "lora_rank": "4",
    "eval_every": "2",
    "save_every": "2",
    "eval_items": "6",
    "test_items": "6",
    "max_tokens": "12",
    "learning_rate": "2e-3",
    "quiet": "true",
}
AUDITED = {**RL, "groups_per_batch": "4", "eval_every": "0", "eval_items": "4", "unit_hashes": "true"}
SFT = {key: RL[key] for key in RL if key not in ("gradient", "groups_per_batch")} | {
    "batch_size": "4",
    "steps": "2",
    "eval_every": "0",
    "save_every": "0",
}


def keys(made: Made, folder: Path, given: Mapping[str, str] = RL) -> dict[str, str]:
    """Return a run's keys, as on the command line."""
    return {**given, "data": str(made.data), "model_name": str(made.base), "log_path": str(folder)}


def planned(
    made: Made, folder: Path, name: str = EXPERIMENT, given: Mapping[str, str] | None = None, **changes: str
) -> Plan:
    """Plan a run: supervised ones with their keys, all others with those of RL."""
    usual = SFT if name.startswith("sft/") else RL
    return make_plan(find(name), {**keys(made, folder, given or usual), **changes})


def run(
    made: Made, folder: Path, name: str = EXPERIMENT, given: Mapping[str, str] | None = None, **changes: str
) -> Conducted:
    """Conduct it."""
    return conduct(planned(made, folder, name, given, **changes), say=unsaid)


def manifest(folder: Path) -> dict[str, Any]:
    """Return what a run says of itself."""
    return json.loads((folder / MANIFEST).read_text())


def in_process(cells: Sequence[Cell], say: Say) -> None:
    """Conduct a study's runs here, one after the other."""
    for cell in cells:
        given = {**cell.task_keys, **cell.overrides, "log_path": str(cell.folder), "threads": "1"}
        conduct(plan_of(cell.found_at, given), say=say)
