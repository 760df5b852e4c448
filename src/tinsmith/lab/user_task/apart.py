"""A function in a process of its own, which sees nothing but what it is sent; both sides are logged."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Final

from tinsmith.types.errors import TaskError

Message = tuple[str, Mapping[str, Any], Any]
"""Of the log: who was asked, what, and the reply."""
_HEAD: Final = "from __future__ import annotations\nimport json, sys\nfrom random import Random\n"


def ask_apart(function: Callable[[dict[str, Any]], Any], request: Mapping[str, Any], log: list[Message]) -> list[Any]:
    """Have a function answer in a bare interpreter: no package, no environment, an empty folder.

    Its own source is all that it has, beside `json`, `sys` and `Random`. It is kept from what it is not sent, and not
    from files of this machine: this is no sandbox.

    Raises:
        TaskError: it ended with an error.
    """
    code = f"{_HEAD}{inspect.getsource(function)}\njson.dump({function.__name__}(json.load(sys.stdin)), sys.stdout)"
    command = [sys.executable, "-I", "-S", "-c", code]
    with tempfile.TemporaryDirectory() as empty:
        ran = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, cwd=empty, env={}, check=False
        )
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["without a word"])[-1]
        raise TaskError(f"{function.__name__} ended with exit code {ran.returncode}: {last}")
    reply = json.loads(ran.stdout)
    log.append((function.__name__, request, reply))
    return reply
