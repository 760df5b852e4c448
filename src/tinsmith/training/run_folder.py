"""What a run leaves behind: its files, written so that a killed run goes on where its last checkpoint stands.

`metrics.jsonl` and `rollouts.jsonl` hold nothing that a clock or a machine decides, and are hashed; `timings.jsonl`
holds the rest. A checkpoint's line says how long each file was then: whoever resumes cuts them back to that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO

from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import file_sha256

CONFIG, MANIFEST = "config.json", "manifest.json"
METRICS, ROLLOUTS, TIMINGS = "metrics.jsonl", "rollouts.jsonl", "timings.jsonl"
CHECKPOINTS, BASELINES, REPORT = "checkpoints.jsonl", "baselines.json", "report.html"

_GROWING = (METRICS, ROLLOUTS, TIMINGS)


class IfExists(StrEnum):
    """What to do where the folder holds a run already."""

    RAISE = "raise"
    RESUME = "resume"
    DELETE = "delete"


class Status(StrEnum):
    """How far a run came."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    """Its server or judge was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line of `checkpoints.jsonl`: where weights are, and what else a resumed run needs."""

    step: int
    """Optimizer steps that these weights have seen."""
    state_path: str
    """To train on from."""
    kept: Mapping[str, object]
    """State of the loop beside the weights: reward, collapse monitor, best so far."""
    lengths: Mapping[str, int]
    """Bytes of each growing file."""


@dataclass(slots=True)
class RunFolder:
    """The open folder of one run; used from one thread."""

    path: Path
    _files: dict[str, IO[bytes]] = field(default_factory=dict[str, IO[bytes]])

    @classmethod
    def begin(
        cls, path: Path, config: Mapping[str, object], *, if_exists: IfExists
    ) -> tuple[RunFolder, Mark | None]:
        """Open a folder for a run; return it and the checkpoint to go on from, if there is one.

        Raises:
            ConfigError: a run is there and `if_exists` is RAISE, or it is a run of something else.
        """
        there = (path / CONFIG).exists()
        if there and if_exists is IfExists.RAISE:
            raise ConfigError(
                "this folder holds a run already",
                field="log_path",
                value=str(path),
                allowed="an empty or new folder",
                fix="behavior_if_log_dir_exists=resume goes on with it, =delete begins again",
            )
        if not there and path.exists() and any(path.iterdir()):
            raise ConfigError(
                "this folder holds something that is no run",
                field="log_path",
                value=str(path),
                allowed="an empty or new folder",
            )
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        mark = None
        if there and if_exists is IfExists.RESUME:
            folder._require_same(config)
            mark = next(iter(reversed(folder.marks())), None)
        elif there:
            folder._delete()
        folder.write_json(CONFIG, config)
        folder._cut(mark)
        return folder, mark

    def append(self, name: str, lines: Sequence[Mapping[str, object]]) -> None:
        """Append lines to a growing file; they are with the operating system when this returns."""
        file = self._open(name)
        file.write(b"".join(_line(line) for line in lines))
        file.flush()

    def mark(self, *, step: int, state_path: str, kept: Mapping[str, object]) -> None:
        """Note a checkpoint whose weights are saved; on the disk when this returns."""
        for name in _GROWING:
            os.fsync(self._open(name).fileno())
        lengths = {name: (self.path / name).stat().st_size for name in _GROWING}
        line = {
            "step": step,
            "state_path": state_path,
            "kept": dict(kept),
            "lengths": lengths,
        }
        with (self.path / CHECKPOINTS).open("ab") as file:
            file.write(_line(line))
            file.flush()
            os.fsync(file.fileno())

    def marks(self) -> list[Mark]:
        """Return the checkpoints that were noted whole, in order; a line cut off by a kill is left out."""
        file = self.path / CHECKPOINTS
        if not file.exists():
            return []
        whole = [line for line in file.read_bytes().split(b"\n")[:-1] if line]
        return [Mark(**json.loads(line)) for line in whole]

    def read_lines(self, name: str) -> list[dict[str, object]]:
        """Return the lines of a growing file."""
        file = self.path / name
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_bytes().splitlines()]

    def write_json(self, name: str, value: Mapping[str, object]) -> None:
        """Write a whole file at once: it is the old one or the new one, never half."""
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        temporary = self.path / f".{name}.new"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, self.path / name)

    def read_json(self, name: str) -> dict[str, object]:
        """Return a whole file's object; empty where there is none."""
        file = self.path / name
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of what a repeated run has to reproduce."""
        return {
            "metrics_sha256": file_sha256(self.path / METRICS),
            "rollouts_sha256": file_sha256(self.path / ROLLOUTS),
        }

    def close(self) -> None:
        """Close the files; harmless when repeated."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _require_same(self, config: Mapping[str, object]) -> None:
        before = self.read_json(CONFIG)
        if before.get("identity_sha256") != config.get("identity_sha256"):
            raise ConfigError(
                "the run in this folder is another one",
                field="log_path",
                value=str(self.path),
                allowed=f"the run {str(before.get('identity_sha256'))[:16]}",
                fix="name another folder, or behavior_if_log_dir_exists=delete",
            )

    def _delete(self) -> None:
        for name in (*_GROWING, CHECKPOINTS, MANIFEST, BASELINES, REPORT, CONFIG):
            (self.path / name).unlink(missing_ok=True)

    def _cut(self, mark: Mark | None) -> None:
        """Cut the growing files back to a checkpoint, and the checkpoints' file to whole lines."""
        for name in _GROWING:
            length = mark.lengths[name] if mark is not None else 0
            file = self.path / name
            if not file.exists():
                file.touch()
            if file.stat().st_size < length:
                raise DataError(
                    f"{file} is shorter than its last checkpoint says",
                    fix="begin again with behavior_if_log_dir_exists=delete",
                )
            os.truncate(file, length)
        marks = self.path / CHECKPOINTS
        whole = marks.read_bytes().rpartition(b"\n") if marks.exists() else (b"", b"", b"")
        marks.write_bytes(whole[0] + whole[1])

    def _open(self, name: str) -> IO[bytes]:
        if name not in self._files:
            self._files[name] = (self.path / name).open("ab")
        return self._files[name]


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"
