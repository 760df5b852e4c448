"""A process that has a server's libraries, and becomes `python -m tinsmith ...` or a program in a child.

A child is handed over to the process that asked: its parent ends, and who asked has it from the system as its own.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import sys
from pathlib import Path

LIBRARIES = ("tinsmith.cli", "tinsmith.server.serve", "tinsmith.server.openai.routes", "tokenizers")
MOST = 1 << 17
"""Bytes of a request: words, directory and environment."""


def _ask(control: socket.socket) -> bytes:
    """Fork for each request; return it in the child, which has its standard streams."""
    while True:
        request, streams, _, _ = socket.recv_fds(control, MOST, 3)
        if not request:
            os._exit(0)
        told, tell = os.pipe()
        if (between := os.fork()) == 0:
            child = os.fork()
            if child:
                os.write(tell, struct.pack("i", child))
                os._exit(0)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.closerange(3, max(*streams, tell, control.fileno()) + 1)
            control.detach()
            return request
        os.waitpid(between, 0)
        control.send(os.read(told, 4))
        for each in (told, tell, *streams):
            os.close(each)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for who asks, in the same group
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()
    asked = json.loads(_ask(control))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked["session"]:
        os.setsid()
    elif asked["group"] >= 0:
        os.setpgid(0, asked["group"])
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[0] = str(Path.cwd())
    sys.argv = asked["words"]
    match sys.argv:
        case ["-m", module, *_]:
            del sys.argv[1]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", text, *_]:
            del sys.argv[1]
            exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
        case [file, *_]:
            sys.path[0] = str(Path(file).parent)
            runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    main()
