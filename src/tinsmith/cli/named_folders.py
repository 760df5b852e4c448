"""Checks that what a command names is there and is what it should be, before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from typer import Argument

from tinsmith.cli.completion import complete_here
from tinsmith.types.errors import CheckpointError, ConfigError, DataError

Run = Annotated[Path, Argument(metavar="RUN", help="The folder of a run, or the file that `tinsmith pack` made of it.")]
HereKeys = Annotated[
    list[str] | None,
    Argument(
        metavar="[key=value ...]",
        help="Where and how fast to compute: model_name=PATH, data=DIR, task=FILE.py, device=cuda, threads=2.",
        autocompletion=complete_here,
    ),
]


@contextmanager
def run_folders(named: Sequence[Path]) -> Generator[list[Path], None, None]:
    """Give the folders of runs that are named by folder, or by the file that each was packed into."""
    from tinsmith.lab.bundle.archive import folders_of

    with folders_of(named) as folders:
        require_runs(folders)
        yield folders


def require_runs(folders: Sequence[Path]) -> None:
    """Check that each folder holds a run."""
    from tinsmith.lab.runs.files import holds_run
    from tinsmith.lab.study.sizes import CELLS

    allowed = "the folder of a run, as `tinsmith run` leaves it, or a FILE.zip of `tinsmith pack`"
    for folder in folders:
        if not folder.exists():
            raise DataError(f"there is no {folder}", field="DIR", value=str(folder), allowed=allowed)
        if not holds_run(folder):
            is_study = (folder / CELLS).is_dir()
            fix = f"name one of its runs, in {CELLS}/ (of a packed study after `tinsmith unpack`)" if is_study else None
            what = f"{folder.name} is a study, and no run" if is_study else f"{folder} holds no run"
            raise DataError(what, field="DIR", value=folder.name if is_study else str(folder), allowed=allowed, fix=fix)


def require_replaceable(file: Path, mark: bytes) -> None:
    """Check that a file's folder is there, and that what stands in its place has the mark of what is written."""
    if not file.parent.is_dir():
        what = "there is no such folder to write to"
        raise ConfigError(what, field="--out", value=str(file), allowed="a file in a folder that exists")
    if file.is_file() and mark not in file.read_bytes():
        what, allowed = "this file exists already, and is nothing that this command wrote", "a new file"
        raise ConfigError(what, field="--out", value=str(file), allowed=allowed, fix="name another, or move it away")


def require_checkpoint(named: str) -> None:
    """Check that a checkpoint's name is a tinker:// path or a folder that is there."""
    from tinsmith.engine.tinker_paths import SCHEME

    if not named.startswith(SCHEME) and not Path(named).is_dir():
        allowed = "a checkpoint's folder, a run's folder, or a tinker:// path"
        raise CheckpointError("there is no such checkpoint", field="CHECKPOINT", value=named, allowed=allowed)


def require_slice(folder: Path) -> None:
    """Check that a folder holds a slice."""
    from tinsmith.data.slices.card import read_slice_card

    read_slice_card(folder)
