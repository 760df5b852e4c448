"""Files of a run's or a study's folder that go into a bundle, with no place of this machine in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final, cast

from tinsmith.engine.checkpoint_files import MARKER, marker_without_place
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.bundle.archive import Content
from tinsmith.lab.experiment.manifest import HERE, Json
from tinsmith.lab.runs.files import CHECKPOINTS, CONFIG, GROWING, MANIFEST, REPORT, STATE, WHOLE, holds_run
from tinsmith.lab.runs.folder import Mark, RunFolder, best_of, damage
from tinsmith.models.staging import present
from tinsmith.types.errors import DataError

_OF_STUDY: Final = (".html", ".json", ".jsonl", ".md")


class Kept(StrEnum):
    """Which checkpoints go along."""

    ALL = "all"
    """Every one, so that any step can be computed again from one near it."""
    LAST = "last"
    """The adapter that the run ended with, and the one that it chose where that is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Files from elsewhere that a run was made of, by their names in its bundle."""

    source: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Of its task."""
    data: Mapping[str, Path] = field(default_factory=dict[str, Path])


OriginOf = Callable[[Path], Origin]
"""Returns what the run in a folder was made of."""


def study_files(folder: Path, kept: Kept, origin_of: OriginOf) -> dict[str, Content]:
    """Return the files of a study and of each of its runs, by their names in a bundle."""
    runs = sorted(each.parent for each in folder.rglob(CONFIG) if holds_run(each.parent))
    runs = [each for each in runs if (each / MANIFEST).is_file()]
    files: dict[str, Content] = {}
    for each in sorted(folder.rglob("*")):
        if each.is_file() and each.suffix in _OF_STUDY and not any(run in each.parents for run in runs):
            files[_name(each, folder)] = _without_places(each, {str(folder.absolute()): "."})
    for run in runs:
        prefix = _name(run, folder)
        files |= {f"{prefix}/{name}": content for name, content in run_files(run, kept, origin_of(run)).items()}
    return files


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def run_files(folder: Path, kept: Kept, origin: Origin) -> dict[str, Content]:
    """Return a run's files by their names in a bundle.

    Raises:
        DataError: a checkpoint that is to go along is damaged.
    """
    run, packed = RunFolder(folder), {**origin.source, **origin.data}
    files: dict[str, Content] = {name: folder / name for name in (*GROWING, *WHOLE) if (folder / name).is_file()}
    manifest = run.read_json(MANIFEST)
    around = cast(Json, manifest.get("circumstances") or {})
    moved = {str(path.absolute()): name for name, path in packed.items()}
    moved |= {str(Path(here).parent): str(PurePosixPath(name).parent) for here, name in moved.items()}
    now = {name: _placed(value, moved) for name, value in around.items()}
    if "prices" in now:
        now["prices"] = None  # what a judge costs decides nothing
    if origin.data and "data_folder" in now:
        now["data"] = now["data_folder"]
    files[MANIFEST] = (json.dumps({**manifest, "circumstances": now}, indent=1, ensure_ascii=False) + "\n").encode()
    if REPORT in files:
        places = {str(value): str(now[name]) for name, value in around.items() if _is_place(value)}
        files[REPORT] = _without_places(folder / REPORT, {**places, str(folder.absolute()): folder.name})
    selected = cast(Json, manifest.get("selected") or {})
    chosen = (str(selected[name]) for name in ("final_path", "sampler_path") if selected.get(name))
    paths = {path for several in chosen for path in several.split()}
    marks = [mark for mark in run.marks() if mark.here]
    marks = marks if kept is Kept.ALL else marks[-1:] if not paths else []
    files[CHECKPOINTS] = b"".join(run.lines_of(marks))
    for path in sorted(paths.union(*map(_paths, marks))):
        files |= _checkpoint(folder / STATE, path)
    return {**files, **packed}


def _paths(mark: Mark) -> list[str]:
    return [path for several in (mark.state_path, *best_of(mark)) for path in several.split()]


def _checkpoint(state: Path, path: str) -> dict[str, Content]:
    """Return the files of a checkpoint; one that a server elsewhere has is not here, and does not go along."""
    there = TinkerPath.parse(path).folder(state)
    if not there.exists():
        return {}
    if (fault := damage(state, [path])) is not None:
        raise DataError(fault, field="DIR", value=str(state.parent))
    name, folder = f"{STATE}/{_name(there, state)}", present(there)
    files: dict[str, Content] = {f"{name}/{each.name}": each for each in sorted(folder.iterdir()) if each.is_file()}
    return {**files, f"{name}/{MARKER}": marker_without_place(folder).encode()}


def _is_place(value: object) -> bool:
    return isinstance(value, str) and Path(value).is_absolute()


def _placed(value: object, moved: Mapping[str, str]) -> object:
    """Return a circumstance without this machine's folders: where it is in the bundle, or its name alone."""
    if isinstance(value, Mapping):
        return {name: _placed(each, moved) for name, each in cast(Json, value).items()}
    if not isinstance(value, str) or not Path(value).is_absolute():
        return value
    file, colon, function = value.partition(".py:")
    here = f"{file}.py" if colon else value
    return (f"{HERE}{moved[here]}" if here in moved else Path(here).name) + (f":{function}" if colon else "")


def _without_places(file: Path, places: Mapping[str, str]) -> Content:
    """Return a page without this machine's folders; another file as it is."""
    if file.suffix not in (".html", ".md"):
        return file
    text = file.read_text(encoding="utf-8")
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text.encode()
