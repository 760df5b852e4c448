"""Whether checkpoints in an embedded server's state folder are whole, told without starting the server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tinsmith.engine.checkpoint_files import is_checkpoint, read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.types.errors import CheckpointError, InputError


def is_saved(state: Path, path: str) -> bool:
    """Return True if the checkpoint that this path names is in the folder, of several each; verify nothing."""
    try:
        return all(is_checkpoint(TinkerPath.parse(one).folder(state)) for one in path.split())
    except InputError:
        return False  # another server's path


def damage(state: Path, paths: Sequence[str]) -> str | None:
    """Say in a line what is wrong with the first of these `tinker://` paths that is not whole; None: nothing.

    Every file's SHA-256 is compared with the one that its checkpoint vouches for.
    """
    for path in (one for several in paths for one in several.split()):
        try:
            read(TinkerPath.parse(path).folder(state))
        except (CheckpointError, InputError, OSError) as error:
            return str(error).partition("\n")[0]
    return None
