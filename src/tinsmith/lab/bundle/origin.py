"""Origins of a run outside its folder: the file of its task with the modules beside it, and its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.manifest import Json
from tinsmith.lab.experiment.replay import changes_of
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.records import Run
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.lab.user_task.functions import modules_beside
from tinsmith.types.errors import DataError

SOURCE: Final = "source"
DATA: Final = "data"
_ITEMS: Final = ("items", "held_out", "tested", "base_items")
"""Fields of a task that may name a file."""


def source_of_file(file: Path) -> dict[str, Path]:
    """Return a task's file and the modules beside it that it imports, by their names in a bundle."""
    every = [file, *modules_beside(file, file.read_bytes()).values()]
    return {f"{SOURCE}/{each.relative_to(file.parent).as_posix()}": each for each in every}


def data_of(
    run: Run, around: Json, subjects: Mapping[Kind, UserTaskEntry], plan_of: Callable[[str, Mapping[str, str]], Plan]
) -> dict[str, Path]:
    """Return a run's data files by their names in a bundle; none where the package or the task's source makes them.

    `around` are its circumstances, with paths in full.

    Raises:
        DataError: a file is no longer there.
    """
    found: dict[str, Path] = {}
    if isinstance(place := around.get("data_folder"), str):
        if not Path(place).is_dir():
            raise DataError("the run's data are no longer there", field="data", value=place)
        found |= {f"{DATA}/slice/{each.name}": each for each in sorted(Path(place).iterdir()) if each.is_file()}
    for key, value in cast(Json, around.get("files") or {}).items():
        if value:
            found[f"{DATA}/{key}/{Path(str(value)).name}"] = Path(str(value))
    task = str(around.get("task") or "")
    if ".py" in task:
        opened = plan_of(task, changes_of(run, around, subjects[run.config.kind], None, {})).experiment.subject
        assert opened.source is not None, "it was opened from a file"
        folder = opened.source.folder
        for name in _ITEMS:
            if isinstance(items := getattr(opened.task, name), str | Path):
                file = folder / items
                # Beside the task's source, which looks for it there.
                if file.is_relative_to(folder):
                    found[f"{SOURCE}/{file.relative_to(folder).as_posix()}"] = file
    for name, file in found.items():
        if not file.is_file():
            raise DataError("this file of the run's data is no longer there", field=name, value=str(file))
    return found
