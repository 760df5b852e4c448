"""A process that has a server's libraries, and becomes `python -m tinsmith ...`, a script or a pytest in a child.

A child is handed over to the process that asked: its parent ends, and who asked has it from the system as its own.
One that becomes a pytest has such a process as this one for itself: what has been loaded is not loaded again. So is
what each server would make for itself, the same each time: a second of its tokenizer, the hash of the source.
"""

import gc
import importlib
import json
import logging
import os
import runpy
import signal
import socket
import struct
import sys
from functools import cache
from pathlib import Path
from typing import Any

from warm import GIVEN, share_certificates

LIBRARIES = ("tinsmith.cli", "tinsmith.server.serve", "tinsmith.server.openai.routes", "tokenizers")
MOST = 1 << 17
"""Bytes of a request: words, directory and environment."""


def _ask(control: socket.socket) -> bytes:
    """Fork for each request; return it in the child, which has its standard streams."""
    while True:
        request, streams, _, _ = socket.recv_fds(control, MOST, 3)
        if not request:
            os._exit(0)
        read, write = os.pipe()
        if (between := os.fork()) == 0:
            child = os.fork()
            if child:
                os.write(write, struct.pack("i", child))
                os._exit(0)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.closerange(3, max(*streams, write, control.fileno()) + 1)
            control.detach()
            return request
        os.waitpid(between, 0)
        control.send(os.read(read, 4))
        for each in (read, write, *streams):
            os.close(each)


def _prepare() -> None:
    import typer.main

    from tinsmith.cli import app
    from tinsmith.renderers.tokenizer import preset_tokenizer
    from tinsmith.types.source import source_sha256

    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # no child would have its threads
    preset_tokenizer("nano")
    source_sha256()
    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(app)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for who asks, in the same group
    logging.disable()  # what libraries say of themselves while they are loaded
    share_certificates()
    for library in (*LIBRARIES, *sys.argv[2:]):
        importlib.import_module(library)
    _prepare()
    logging.disable(logging.NOTSET)
    gc.collect()
    gc.freeze()
    wanted: dict[str, Any] = json.loads(_ask(control))
    if wanted["words"][:2] == ["-m", "pytest"]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if pid := os.fork():
            theirs.close()
            wanted["environment"][GIVEN] = f"{ours.detach()} {pid}"
        else:
            ours.close()
            wanted = json.loads(_ask(theirs))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if wanted["session"]:
        os.setsid()
    elif wanted["group"] >= 0:
        os.setpgid(0, wanted["group"])
    os.chdir(wanted["directory"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.path[0] = str(Path.cwd())
    sys.argv = wanted["words"]
    if sys.argv[0] == "-m":
        runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
