"""Whether what a command names is there and is what it should be, told before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tinsmith.types.errors import CheckpointError, ConfigError, DataError

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run, or the file that `tinsmith pack` made of it.")
]
HereKeys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[key=value ...]",
        help="Where and how fast to compute: model_name=PATH, data=DIR, task=FILE.py, device=cuda, threads=2.",
    ),
]


def here_keys(changes: Sequence[str] | None) -> dict[str, str]:
    """Return `key=value` arguments as keys."""
    found: dict[str, str] = {}
    for each in changes or ():
        key, equals, value = each.partition("=")
        if not equals:
            what, allowed = "an argument must have the form key=value", "device=cuda, data=DIR, ..."
            raise ConfigError(what, field="argument", value=each, allowed=allowed)
        found[key] = value
    return found


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

    for folder in folders:
        if not holds_run(folder):
            allowed = "a folder with a config.json, as `tinsmith run` leaves it"
            raise DataError(f"{folder} holds no run", field="DIR", value=str(folder), allowed=allowed)


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
