"""True if a folder holds a run already, and what is then to be done with it; knows nothing of what is in a run."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import cast

from tinsmith.lab.runs.files import CONFIG, MANIFEST
from tinsmith.lab.runs.kinds import Status
from tinsmith.types.errors import ConfigError
from tinsmith.types.json_text import parse_json


class IfExists(StrEnum):
    """What to do where the folder holds a run already."""

    RESUME_INTERRUPTED = "resume_interrupted"
    """RESUME a run that was interrupted or lost its server, RAISE at any other."""
    RAISE = "raise"
    RESUME = "resume"
    DELETE = "delete"
    ASK = "ask"  # Ask at the terminal which of the other three; RAISE where there is none.


def holds_run(path: Path) -> bool:
    """True if a run was begun in this folder."""
    return (path / CONFIG).exists()


def settle(path: Path, if_exists: IfExists) -> IfExists:
    """Return what to do with the run in a folder: RAISE, RESUME or DELETE; asked at the terminal for ASK."""
    if if_exists is IfExists.RESUME_INTERRUPTED:
        return IfExists.RESUME if _was_interrupted(path) else IfExists.RAISE
    if if_exists is not IfExists.ASK or not holds_run(path):
        return if_exists
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise _already_there(path, "this folder holds a run already, and there is no terminal to ask at")
    choices = [IfExists.RAISE, IfExists.RESUME, IfExists.DELETE]
    while True:
        question = f"{path} holds a run already: {', '.join(choices)}? "
        print(question, end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            return IfExists.RAISE
        if answer.strip() in list(choices):
            return IfExists(answer.strip())


def require_room(path: Path, if_exists: IfExists) -> None:
    """Check that a run may begin in a folder, or go on there."""
    if holds_run(path):
        if if_exists is IfExists.RAISE:
            raise _already_there(path, "this folder holds a run already")
        return
    if path.exists() and not (path.is_dir() and _empty(path)):
        what = "this folder holds something that is not a run"
        raise ConfigError(what, field="log_path", value=str(path), allowed="an empty or new folder")


def _already_there(path: Path, what: str) -> ConfigError:
    fix = "log_path=NEW; or behavior_if_log_dir_exists=resume goes on with it, =delete begins again"
    return ConfigError(what, field="log_path", value=str(path), allowed="an empty or new folder", fix=fix)


def _was_interrupted(path: Path) -> bool:
    """True if the run in a folder stopped before its end, and said so: another process may be at one that did not."""
    try:
        manifest: object = parse_json((path / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False
    found = cast(dict[str, object], manifest) if isinstance(manifest, dict) else {}
    return found.get("status") in (Status.INTERRUPTED.value, Status.LOST.value)


def _empty(path: Path) -> bool:
    """True if nothing is there but what a kill while beginning leaves: a `config.json` that was never put in place."""
    return all(each.name == f".{CONFIG}.new" for each in path.iterdir())
