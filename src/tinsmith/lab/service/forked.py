"""Process of a server, forked from one that has loaded the libraries: it starts in a fraction of the time."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def forked() -> Generator[subprocess.Popen[str] | None, None, None]:
    """Give a process that waits for its command, and that ends with the body; None where this system does not fork.

    It is forked before anything computes: threads of kernels do not go along.
    """
    if sys.platform != "linux":
        yield None  # elsewhere libraries of the system forbid it
        return
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy's idle threads are no harm
        process = subprocess.Popen(
            [sys.executable],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_become,  # what it becomes it is instead of a new program
            restore_signals=False,  # Python ignores SIGPIPE
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()


def begin(process: subprocess.Popen[str], arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Have a waiting process run `tinsmith` with these arguments, and with these variables beside its own."""
    assert process.stdin is not None
    process.stdin.write(json.dumps([list(arguments), dict(environment)]) + "\n")
    process.stdin.flush()


def _become() -> None:
    """Wait for a command in the child, and run it; never returns."""
    code = 1
    try:
        # The parent's files are nobody's here, among them the pipe by which it waits for a new program. Their numbers
        # stay taken: what still knows one must not close a file that has it later.
        nothing = os.open(os.devnull, os.O_RDWR)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                with suppress(OSError):
                    os.dup2(nothing, int(name))
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(0, 1)
            if not part:
                os._exit(0)
            line += part
        arguments, environment = json.loads(line)
        os.environ.update(environment)
        sys.argv = [str(Path(sys.argv[0])), *arguments]
        sys.stdin, sys.stdout, sys.stderr = (open(fd, mode, closefd=False) for fd, mode in enumerate("rww"))  # noqa: SIM115
        runpy.run_module("tinsmith", run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
