"""Whether what a command names is there and is what it should be, told before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tinsmith.types.errors import CheckpointError, DataError


def require_runs(folders: Sequence[Path]) -> None:
    """Check that each folder holds a run."""
    from tinsmith.lab.runs.existing_run import holds_run

    for folder in folders:
        if not holds_run(folder):
            raise DataError(
                f"{folder} holds no run",
                field="DIR",
                value=str(folder),
                allowed="a folder with a config.json, as `tinsmith run` leaves it",
            )


def require_checkpoint(named: str) -> None:
    """Check that a checkpoint's name is a tinker:// path or a folder that is there."""
    from tinsmith.engine.tinker_paths import SCHEME

    if not named.startswith(SCHEME) and not Path(named).is_dir():
        raise CheckpointError(
            "there is no such checkpoint",
            field="CHECKPOINT",
            value=named,
            allowed="a checkpoint's folder, a run's folder, or a tinker:// path",
        )


def require_slice(folder: Path) -> None:
    """Check that a folder holds a slice."""
    from tinsmith.data.slices.card import read_slice_card

    read_slice_card(folder)
