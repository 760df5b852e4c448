"""Forgeries of a run's folder: of lines, of files, of checkpoints; each returns what forges it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tinsmith.engine import checkpoint_files
from tinsmith.lab.runs.files import CHECKPOINTS, MANIFEST, TRACE
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.models.tensor_file import read_fp32, write_tensors
from tinsmith.types.fingerprints import file_sha256, sha256_of


def line_changed(name: str, number: int, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        lines = (folder / name).read_text().splitlines(keepends=True)
        line = json.loads(lines[number])
        change(line)
        lines[number] = json.dumps(line, ensure_ascii=False) + "\n"
        (folder / name).write_text("".join(lines))

    return forge


def lines_moved(name: str, *order: int) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[number] for number in order))

    return forge


def marker_changed(place: str, *path: str, value: object) -> Callable[[Path], None]:
    """Forge a fact of a checkpoint's marker, and its hash."""

    def forge(folder: Path) -> None:
        (weights,) = folder.rglob(place)
        json_changed(f"{weights.relative_to(folder)}/{checkpoint_files.MARKER}", *path, value=value)(folder)
        marker = weights / checkpoint_files.MARKER
        values = json.loads(marker.read_text())
        del values["sha256"]
        marker.write_text(json.dumps({**values, "sha256": sha256_of(values)}))

    return forge


def mark_changed(step: int, *path: str, value: object) -> Callable[[Path], None]:
    """Forge a value that the loop goes on with from a checkpoint, and its line's hash."""

    def forge(folder: Path) -> None:
        marks = [json.loads(line) for line in (folder / CHECKPOINTS).read_text().splitlines()]
        for mark in marks:
            place = mark["kept"] if mark["step"] == step else {}
            for key in path[:-1]:
                place = place.get(key, {})
            place[path[-1]] = value
            del mark["sha256"]
            mark["sha256"] = sha256_of(mark)
        (folder / CHECKPOINTS).write_text("".join(json.dumps(mark) + "\n" for mark in marks))

    return forge


def forged_tensor(weights: Path, file: str) -> tuple[str, np.float32, np.float32]:
    """Forge the first value of a checkpoint's first matrix, and its hashes; return its name and both values."""
    tensors = read_fp32(weights / file)
    name = min(each for each in tensors if tensors[each].ndim == 2)
    before = tensors[name].numpy()[0, 0]
    tensors[name][0, 0] += 1.0
    write_tensors(weights / file, tensors)
    marker = weights / checkpoint_files.MARKER
    words = json.loads(marker.read_text())
    del words["sha256"]
    words["files"][file] = file_sha256(weights / file)
    marker.write_text(json.dumps({**words, "sha256": sha256_of(words)}))
    return name, before, tensors[name].numpy()[0, 0]


def signed_again(folder: Path) -> None:
    """Do as a forger would: name the forged files in the manifest."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["hashes"] |= RunFolder(folder).hashes()
    manifest["trace_links"] = RunFolder(folder).links(TRACE)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def json_changed(name: str, *path: str, value: object) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        place = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        (folder / name).write_text(json.dumps(content))

    return forge


def lines_added(name: str, *numbers: int, **changes: object) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        more = [{**lines[number], **changes} for number in numbers]
        with (folder / name).open("a") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in more)

    return forge
