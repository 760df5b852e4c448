"""Folder of a run: its files, written so that a killed run resumes from its last checkpoint.

`metrics.jsonl`, `rollouts.jsonl` and `trace.jsonl` hold nothing that a clock or a machine decides, and are hashed;
`timings.jsonl` holds the rest. A checkpoint's line says how long each file was then: whoever resumes cuts them back to
that. A checkpoint that is damaged is passed over, and the one before it is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, cast

import msgspec

from tinsmith.engine.checkpoint_files import is_checkpoint, read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.runs import files
from tinsmith.lab.runs.records import Manifest
from tinsmith.models.staging import folder_lock
from tinsmith.types.disk import writing
from tinsmith.types.errors import CheckpointError, ConfigError, DataError, InputError
from tinsmith.types.fingerprints import file_sha256, sha256_of, sha256_of_json
from tinsmith.types.json_text import UNREADABLE, parse_json
from tinsmith.types.waits import tell

_AGAIN: Final = "copy or unpack it again; a run of your own: start it again in another folder"


def is_saved(state: Path, path: str) -> bool:
    """Return True if the folder has the checkpoint of this path, of every agent; nothing is verified."""
    try:
        return path != "" and all(is_checkpoint(TinkerPath.parse(one).folder(state)) for one in path.split())
    except InputError:
        return False  # another server's path


def damage(state: Path, paths: Sequence[str]) -> str | None:
    """Return the fault of the first damaged one of these `tinker://` paths, as a line; None if all are complete.

    Every file's SHA-256 is compared with the one that its checkpoint vouches for.
    """
    for path in (one for several in paths for one in several.split()):
        try:
            read(TinkerPath.parse(path).folder(state))
        except (CheckpointError, InputError, OSError) as error:
            return str(error).partition("\n")[0]
    return None


_HALVES: Final = "replace"  # Halves of surrogate pairs, as names of files have them, are no text: written as "?".
_LINK: Final = 16  # Hexadecimal digits of a link.


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Line of `checkpoints.jsonl`: path of the weights, and the state for resuming a run."""

    step: int  # Optimizer steps that these weights have seen.
    state_path: str  # To train on from.
    kept: Mapping[str, object]
    """State of the loop beside the weights: the course's (rewards, collapse monitor), and the best so far."""
    lengths: Mapping[str, int]  # Bytes of each growing file.
    here: bool = False
    """True if the weights are in this folder's STATE; a remote server's weights cannot be verified."""


@dataclass(slots=True, weakref_slot=True)
class RunFolder:
    """Open folder of one run; used from one thread."""

    path: Path
    _files: dict[str, IO[bytes]] = field(default_factory=dict[str, IO[bytes]])
    _unlock: Callable[[], object] = lambda: None

    @classmethod
    def begin(
        cls,
        path: Path,
        config: Mapping[str, object],
        *,
        if_exists: files.IfExists,
        say: Callable[[str], None] | None = None,
    ) -> tuple[RunFolder, Mark | None]:
        """Open a folder for a run; return it, and the checkpoint to resume from, if there is one.

        `say` (default: standard error) gets a line for every checkpoint that is passed over, and why.

        Raises:
            ConfigError: the folder holds a run and `if_exists` does not allow it, or another process is running in it.
        """
        there = files.holds_run(path)
        if there:
            if_exists = files.settle(path, if_exists)
        files.require_room(path, if_exists)
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder._lock()
        mark = None
        if there and if_exists is files.IfExists.RESUME:
            before = folder.read_json(files.CONFIG).get("identity_sha256")
            if before != config.get("identity_sha256"):
                what, allowed = "this folder holds another run", f"the run {str(before)[:16]}"
                fix = "name another folder, or behavior_if_log_dir_exists=delete"
                raise ConfigError(what, field="log_path", value=str(path), allowed=allowed, fix=fix)
            mark = folder._newest_whole(say or tell)
        elif there:
            folder._delete()
        folder.write_json(files.CONFIG, config)
        folder._cut(mark)
        return folder, mark

    def append(self, name: str, lines: Sequence[Mapping[str, object]]) -> None:
        """Append lines to a growing file; they are in the operating system's cache when this returns."""
        with writing(self.path / name):
            file = self._open(name)
            file.write(b"".join(_line(line) for line in lines))
            file.flush()

    def mark(self, *, step: int, state_path: str, kept: Mapping[str, object]) -> None:
        """Record a saved checkpoint; it is on the disk when this returns.

        Weights first, then this line: a line never names weights that are not there. A kill in between leaves weights
        that nothing names.
        """
        for name in files.GROWING:
            os.fsync(self._open(name).fileno())
        line: dict[str, object] = {
            "step": step,
            "state_path": state_path,
            "kept": dict(kept),
            "lengths": {name: (self.path / name).stat().st_size for name in files.GROWING},
            "here": is_saved(self.path / files.STATE, state_path),
        }
        with writing(self.path / files.CHECKPOINTS), (self.path / files.CHECKPOINTS).open("ab") as file:
            file.write(_line({**line, "sha256": sha256_of(line)}))
            file.flush()
            os.fsync(file.fileno())

    def marks(self) -> list[Mark]:
        """Return the checkpoints with complete lines, in order; truncated or damaged lines are left out."""
        return [mark for mark in map(_parsed, self._mark_lines()) if mark is not None]

    def damaged_marks(self) -> int:
        """Return the number of checkpoints' lines that cannot be read."""
        return sum(_parsed(line) is None for line in self._mark_lines())

    def lines_of(self, marks: Sequence[Mark]) -> list[bytes]:
        """Return the raw lines of these checkpoints."""
        return [line + b"\n" for line in self._mark_lines() if _parsed(line) in marks]

    def links(self, name: str) -> list[str]:
        """Return a chain of hashes over a growing file: of each line the SHA-256 of the file up to its end, cut short.

        So the last one begins the file's own SHA-256, and the first that is another names the line that was changed.
        """
        whole, found = hashlib.sha256(), list[str]()
        if not (self.path / name).exists():
            return found
        with (self.path / name).open("rb") as lines:
            for line in lines:
                whole.update(line)
                found.append(whole.hexdigest()[:_LINK])
        return found

    def read_lines(self, name: str) -> list[dict[str, object]]:
        """Return the lines of a growing file."""
        file = self.path / name
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_bytes().splitlines()]

    def write_json(self, name: str, value: Mapping[str, object]) -> None:
        """Replace a file atomically."""
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        self._write(name, text.encode(errors=_HALVES))

    def read_json(self, name: str) -> dict[str, object]:
        """Return a whole file's object; empty where there is none."""
        file = self.path / name
        if not file.exists():
            return {}
        try:
            found = parse_json(file.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise DataError(f"{file} is damaged", field=name, fix=_AGAIN)
        return cast(dict[str, object], found)

    def manifest(self) -> Manifest:
        """Return the manifest; an empty one if there is no file."""
        return self.manifest_of(self.read_json(files.MANIFEST))

    def manifest_of(self, content: Mapping[str, object]) -> Manifest:
        """Parse the content of a manifest."""
        try:
            return msgspec.convert(content, Manifest)
        except msgspec.ValidationError:
            what = f"{self.path / files.MANIFEST} is damaged"
            raise DataError(what, field=files.MANIFEST, fix=_AGAIN) from None

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of all that a replay must reproduce; the trace's only if a server reported one."""
        hashed = {"metrics_sha256": files.METRICS, "rollouts_sha256": files.ROLLOUTS}
        trace = self.path / files.TRACE
        if trace.exists() and trace.stat().st_size > 0:
            hashed["trace_sha256"] = files.TRACE
        return {key: file_sha256(self.path / name) for key, name in hashed.items()}

    def close(self) -> None:
        """Close the files, and let others write here; harmless when repeated."""
        self._close_files()
        self._unlock()

    def abandon(self) -> None:
        """Delete a prepared run without steps, and its folder if it is otherwise empty."""
        self._close_files()
        self._delete()
        with suppress(OSError):  # something else is in it
            self.path.rmdir()
        self._unlock()

    def _close_files(self) -> None:
        opened = dict(self._files)
        self._files.clear()
        for name, file in opened.items():
            with writing(self.path / name):
                file.close()

    def _lock(self) -> None:
        """Be the only one that writes here until `close`; the lock ends with the process, too."""
        place = folder_lock(self.path)
        if place is None:
            what, fix = "another process is running in this folder", "wait until it ends, or name another folder"
            raise ConfigError(what, field="log_path", value=str(self.path), fix=fix)
        self._unlock = weakref.finalize(self, os.close, place)

    def _newest_whole(self, say: Callable[[str], None]) -> Mark | None:
        lines = self._mark_lines()
        for line in reversed(lines):
            mark = _parsed(line)
            why = f"its line in {files.CHECKPOINTS} is damaged" if mark is None else self._damage(mark)
            if mark is not None and why is None:
                if line is not lines[-1]:
                    say(f"resuming from the checkpoint at step {mark.step}")
                return mark
            at = "a checkpoint" if mark is None else f"the checkpoint at step {mark.step}"
            say(f"{self.path}: {at} is skipped: {why}")
        if lines:
            say("no checkpoint is complete: starting again from step 0")
        return None

    def _damage(self, mark: Mark) -> str | None:
        """Return the missing parts of a checkpoint in words; None if it is complete."""
        for name in files.GROWING:
            file = self.path / name
            if mark.lengths.get(name, 0) > (file.stat().st_size if file.exists() else 0):
                return f"{name} is shorter than it was then"
        return damage(self.path / files.STATE, [mark.state_path, *best_of(mark)]) if mark.here else None

    def _mark_lines(self) -> list[bytes]:
        """Return the lines that were written to their end."""
        file = self.path / files.CHECKPOINTS
        return file.read_bytes().split(b"\n")[:-1] if file.exists() else []

    def _delete(self) -> None:
        """Delete a run; `config.json` last, since it marks the folder as a run's."""
        shutil.rmtree(self.path / files.STATE, ignore_errors=True)
        for name in (files.CHECKPOINTS, *files.GROWING, *files.WHOLE):
            (self.path / name).unlink(missing_ok=True)

    def _cut(self, mark: Mark | None) -> None:
        """Truncate the files to a checkpoint. Later checkpoints are removed first, as they would become invalid."""
        lines = self._mark_lines()
        count = 1 + max((i for i, line in enumerate(lines) if _parsed(line) == mark), default=-1)
        self._write(files.CHECKPOINTS, b"".join(line + b"\n" for line in lines[: count if mark else 0]))
        for name in files.GROWING:
            file = self.path / name
            file.touch()
            os.truncate(file, 0 if mark is None else mark.lengths.get(name, 0))

    def _write(self, name: str, content: bytes) -> None:
        temporary = self.path / f".{name}.new"
        with writing(self.path / name):
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path / name)

    def _open(self, name: str) -> IO[bytes]:
        if name not in self._files:
            self._files[name] = (self.path / name).open("ab")
        return self._files[name]


_LINE: Final = msgspec.json.Decoder(dict[str, object])


def _parsed(line: bytes) -> Mark | None:
    """Decode a line of `checkpoints.jsonl`; None if its bytes are damaged."""
    try:
        content = _LINE.decode(line)
        digest = content.pop("sha256", None)
        return msgspec.convert(content, Mark) if digest == sha256_of_json(content) else None
    except UNREADABLE:
        return None


def best_of(mark: Mark) -> list[str]:
    """Return the path of the best policy so far, from which the run samples at its end."""
    best = cast(Mapping[str, object], mark.kept.get("best") or {})
    path = best.get("sampler_path")
    return [path] if isinstance(path, str) and path else []


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors=_HALVES) + b"\n"
