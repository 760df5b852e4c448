"""Process for one chat template: it renders each text in a fork of itself, which ends at a deadline.

Jinja's code cannot be interrupted in a thread, so that an endless template would block its thread forever; and one
multiplication makes a text of any size. A process can be killed, and its memory can be limited.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys

from tinsmith.renderers.templates import Render, compiled
from tinsmith.types.errors import InputError

CPU_S = 1
"""CPU seconds for one text."""
WALL_S = 30.0
"""Wall-clock seconds for one text on a busy machine; an endless template reaches the CPU limit first."""
MEMORY = 1 << 29
"""Limit on the address space in bytes; not on macOS, where every process starts with more."""
TEXT, REFUSAL = b"+", b"-"
"""First byte of an answer."""


def serve(control: socket.socket) -> None:
    """Compile the template that `control` sends first; then render into every socket that it sends."""
    if sys.platform != "darwin":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the forks need not be waited for
    size = int.from_bytes(_exactly(control, 8), "big")
    source = _exactly(control, size).decode()
    _bound()  # the template's constants are computed already
    try:
        render = compiled(source)
    except InputError as error:
        control.sendall(_refusal(error))
        return
    signal.setitimer(signal.ITIMER_REAL, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    control.sendall(TEXT)
    while True:
        data, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        with socket.socket(fileno=handles[0]) as client:
            if os.fork() == 0:
                control.close()
                _answer(client, render)
                os._exit(0)


def read_all(client: socket.socket, most: int) -> bytes:
    """Read to the end, or the first `most` bytes and some more."""
    parts: list[bytes] = []
    size = 0
    while size <= most and (part := client.recv(1 << 20)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _answer(client: socket.socket, render: Render) -> None:
    """Read the variables and write the text, or end at the deadline."""
    _bound()
    os.nice(5)  # if memory is short, kill this first
    try:
        answer = TEXT + render(json.loads(read_all(client, MEMORY))).encode()
    except InputError as error:
        answer = _refusal(error)
    client.sendall(answer)


def _bound() -> None:
    """Limit the CPU and wall-clock time of this process."""
    signal.setitimer(signal.ITIMER_REAL, WALL_S)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, resource.RLIM_INFINITY))


def _refusal(error: InputError) -> bytes:
    return REFUSAL + error.what.encode("utf-8", "replace")


def _exactly(control: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = control.recv(size - len(data))
        if not part:
            raise SystemExit(0)
        data += part
    return data


if __name__ == "__main__":
    serve(socket.socket(fileno=0))
