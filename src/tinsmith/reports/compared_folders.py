"""What folders must be for their runs to be compared: each named once, and all of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tinsmith.runs.kinds import Kind
from tinsmith.runs.run_reader import read_run
from tinsmith.types.errors import ConfigError


def check_each_once(folders: Sequence[Path]) -> None:
    """Refuse a comparison of a run with itself.

    Raises:
        ConfigError: the same folder twice.
    """
    if len({folder.resolve() for folder in folders}) != len(folders):
        raise ConfigError(
            "a run is compared with itself",
            field="DIR",
            value=[str(folder) for folder in folders],
            allowed="each folder once",
        )


def all_of_kind(folders: Sequence[Path], kind: Kind, why: str) -> bool:
    """Whether all runs are of a kind; `why` says what a mixture lacks.

    Raises:
        ConfigError: some are and some are not.
        DataError: a folder holds no run.
    """
    found = [read_run(folder).config.kind is kind for folder in folders]
    if any(found) and not all(found):
        raise ConfigError(
            why,
            field="DIR",
            value=[str(folder) for folder, one in zip(folders, found, strict=True) if one],
            allowed="runs of one kind",
        )
    return all(found)
