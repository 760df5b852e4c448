"""Checkpoint paths `tinker://SESSION/weights/NAME` and their folders.

Names and session ids are short and plain, so that no name can leave the state folder; the colon of
a session id (`abc:train:0`), which not every file system takes, is `%3A` in a folder's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tinsmith.types.errors import InputError

SCHEME = "tinker://"

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_SESSION = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._:-]{0,127}")
_ALLOWED = "1 to 128 of A-Z a-z 0-9 . _ -, the first not a dot"


class CheckpointKind(StrEnum):
    """Purpose of a checkpoint: training or sampling."""

    WEIGHTS = "weights"
    SAMPLER_WEIGHTS = "sampler_weights"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TinkerPath:
    """The name of one checkpoint.

    >>> path = TinkerPath.parse("tinker://abc:train:0/weights/step-10")
    >>> path.folder(Path("state")).as_posix()
    'state/abc%3Atrain%3A0/weights/step-10'

    Raises:
        InputError: for a session or name that is not allowed.
    """

    session: str
    kind: CheckpointKind
    name: str

    def __post_init__(self) -> None:
        if not _SESSION.fullmatch(self.session):
            raise InputError(
                "a session cannot be called this", field="session", value=self.session, allowed=f"{_ALLOWED}; and :"
            )
        if not _NAME.fullmatch(self.name):
            raise InputError("a checkpoint cannot be called this", field="name", value=self.name, allowed=_ALLOWED)

    @staticmethod
    def parse(text: str) -> TinkerPath:
        """Read a `tinker://` path.

        Raises:
            InputError: it has another form, or a name that is not allowed.
        """
        parts = text.removeprefix(SCHEME).split("/")
        if not text.startswith(SCHEME) or len(parts) != 3 or parts[1] not in tuple(CheckpointKind):
            raise InputError(
                "this is not the path of a checkpoint",
                field="path",
                value=text,
                allowed=" or ".join(f"{SCHEME}SESSION/{kind}/NAME" for kind in CheckpointKind),
            )
        return TinkerPath(session=parts[0], kind=CheckpointKind(parts[1]), name=parts[2])

    def __str__(self) -> str:
        return f"{SCHEME}{self.session}/{self.kind}/{self.name}"

    def folder(self, state: Path) -> Path:
        """Return the checkpoint's folder below `state`; it need not exist."""
        return state / _folder_name(self.session) / self.kind / self.name


def own_folders(model_id: str, state: Path) -> tuple[Path, ...]:
    """Return the folders below `state` that hold a model's checkpoints, innermost first."""
    own = state / _folder_name(model_id)
    return (*(own / kind for kind in CheckpointKind), own)


def _folder_name(session: str) -> str:
    return session.replace(":", "%3A")


def from_folder(session: str, kind: CheckpointKind, name: str) -> TinkerPath | None:
    """Return the path for folders of these names; None if they are not a checkpoint's."""
    try:
        path = TinkerPath(session=session.replace("%3A", ":"), kind=kind, name=name)
    except InputError:
        return None
    return path if path.folder(Path()).parts[0] == session else None
