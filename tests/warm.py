"""Starts of `tinsmith` out of a process that has its libraries already: loading them is most of a start.

What is started is a process of its own and a child of the test's, with its own environment and streams. Only that
it has loaded nothing itself sets it apart: where that is what is tested, `cold` is asked for. Another script is
started so where its command begins with `SCRIPT`.
"""

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

SUBREAPER = 36
"""prctl's number for: who has lost its parent is mine."""
TINSMITH = [sys.executable, "-m", "tinsmith"]
SCRIPT = [sys.executable, "-X", "warm"]
"""Python knows no such option, and so takes it for nothing where no process is warm."""
AT_LOADING = (
    *("PYTHONPATH", "PYTHONHASHSEED", "OMP_", "OPENBLAS_", "HF_HOME", "HF_HUB_", "HF_ENDPOINT", "POLARS_", "LD_"),
    *("PATH", "HOME", "TMPDIR", "MPL"),
)
"""Beginnings of the variables that are read when a library is loaded; Ray, scikit-learn and datasets set others."""

HUB = str(Path(tempfile.gettempdir()) / "tinsmith-tests-hub")
"""Servers put their tokenizers there: HF_HUB_CACHE, which is read when huggingface_hub is loaded."""

CERTIFICATES = Path(tempfile.gettempdir()) / "tinsmith-tests-certificates"
"""Facts that were found to hold on this machine, with this source; to find it is tested in tests/engine/checks."""


def share_certificates() -> None:
    """Let all of tinsmith that this process loads from now on keep certificates there, whatever home a test has."""
    from tinsmith.types import home

    home.certificates_folder = lambda: CERTIFICATES


ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""No child would have the threads that a library starts when it is loaded."""
GIVEN = "TESTS_STARTER"
"""Variable with the socket and the process of a starter that a process of tests was given with its libraries."""


class Starter:
    """The process that servers are forked from."""

    def __init__(self, *more: str) -> None:
        """Start it with the libraries of a server, and more that are named; or take the one that was given."""
        self.environment = loaded(os.environ)
        self._libc = ctypes.CDLL(None)
        if given := os.environ.pop(GIVEN, ""):
            control, self._pid = map(int, given.split())
            self._control = socket.socket(fileno=control)
            return
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = str(Path(__file__).with_name("warm_start.py"))
        with theirs:
            process = COLD(
                [sys.executable, program, str(theirs.fileno()), *more],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
            )
        self._pid, process.returncode = process.pid, 0  # it is waited for by its number

    def start(self, request: Mapping[str, object], streams: list[int]) -> int:
        """Return the id of a new child of this process."""
        self._libc.prctl(SUBREAPER, 1)
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], streams)
            (pid,) = struct.unpack("i", self._control.recv(4))
        finally:
            self._libc.prctl(SUBREAPER, 0)
        return int(pid)

    def close(self) -> None:
        self._control.close()
        os.waitpid(self._pid, 0)


def loaded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that libraries may read when they are loaded."""
    return {name: value for name, value in environment.items() if name.startswith(AT_LOADING)}


COLD = subprocess.Popen


class WarmPopen(COLD[Any]):
    """A Popen that starts them out of the process that has their libraries."""

    starter: ClassVar[Starter | None] = None

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        pass_fds, directory, given, _, _, shell, *ends = rest
        read, own_write, own_read, write, own_errors, errors, _, gid, gids, uid, umask, session, group = ends
        environment = dict(os.environ if given is None else given)
        usual = executable is None and preexec_fn is None and not shell and not pass_fds
        usual = usual and gid is None and gids is None and uid is None and umask < 0 and isinstance(args, list)
        usual = usual and args[:3] in (TINSMITH, SCRIPT)
        if not usual or loaded(environment) != (starter := _starter()).environment:
            super()._execute_child(args, executable, preexec_fn, close_fds, *rest)  # type: ignore[misc]
            return
        request = {
            "words": args[1:] if args[:3] == TINSMITH else args[3:],
            "directory": os.fspath(directory or Path.cwd()),
            "environment": environment,
            "session": bool(session),
            "group": -1 if group is None else group,
        }
        streams = [own if own != -1 else usual_one for usual_one, own in enumerate((read, write, errors))]
        self.pid = starter.start(request, streams)
        self._child_created = True
        self._close_pipe_fds(read, own_write, own_read, write, own_errors, errors)  # type: ignore[attr-defined]


def _starter() -> Starter:
    if WarmPopen.starter is None:
        WarmPopen.starter = Starter()
    return WarmPopen.starter


@contextmanager
def warm() -> Generator[None]:
    """Let servers be started so."""
    subprocess.Popen = WarmPopen  # type: ignore[misc]
    try:
        yield
    finally:
        subprocess.Popen = COLD  # type: ignore[misc]
        if WarmPopen.starter is not None:
            WarmPopen.starter.close()
            WarmPopen.starter = None


@contextmanager
def cold() -> Generator[None]:
    """Let every process load its libraries itself."""
    before, subprocess.Popen = subprocess.Popen, COLD  # type: ignore[misc]
    try:
        yield
    finally:
        subprocess.Popen = before  # type: ignore[misc]
