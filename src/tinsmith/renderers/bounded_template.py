"""Chat template rendered in a separate process with a deadline, for a server that runs other people's templates."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable
from threading import Lock

from tinsmith.renderers.template_process import CPU_S, REFUSAL, TEXT, WALL_S, read_all
from tinsmith.renderers.templates import MAX_CHARS, Variables, failed
from tinsmith.types.errors import InputError

_MOST = 4 * MAX_CHARS + 1


class BoundedTemplate:
    """Renderer of one template. Thread-safe; calls do not wait for each other."""

    def __init__(self, source: str) -> None:
        """Prepare; the first call starts the process."""
        self._source = source
        self._lock = Lock()
        self._control: socket.socket | None = None
        self._stop: Callable[[], object] | None = None
        self._refused: InputError | None = None
        """Error of a template that does not compile."""

    def __call__(self, variables: Variables) -> str:
        """Render the template.

        Raises:
            InputError: it rejects the variables, or does not terminate in time.
        """
        data = json.dumps(variables).encode()
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._hand_over(theirs)
            ours.settimeout(WALL_S + 5.0)
            try:
                ours.sendall(data)
                ours.shutdown(socket.SHUT_WR)
                answer = read_all(ours, _MOST)
            except OSError:  # its process has ended
                answer = b""
        return _read(answer)

    def _hand_over(self, client: socket.socket) -> None:
        """Send the process a socket for its answer; start it if it is not running."""
        with self._lock:
            if self._refused is not None:
                raise self._refused.with_traceback(None)
            for control in (self._control, None):
                try:
                    socket.send_fds(control or self._start(), [b"."], [client.fileno()])
                    return
                except OSError:
                    if control is None:
                        raise _endless() from None

    def _start(self) -> socket.socket:
        if self._stop is not None:
            self._stop()
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tinsmith.renderers.template_process"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._stop = weakref.finalize(self, _end, process, ours)
        ours.settimeout(WALL_S + 5.0)
        source = self._source.encode("utf-8", "replace")
        ours.sendall(len(source).to_bytes(8, "big") + source)
        try:
            _read(ours.recv(1 << 16))
        except InputError as error:
            self._refused = error
            raise
        self._control = ours
        return ours


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Let the process end, which it does once no one holds its control socket."""
    control.close()
    process.wait()


def _read(answer: bytes) -> str:
    if answer.startswith(TEXT) and len(answer) <= _MOST:
        return answer[1:].decode("utf-8", "replace")
    if answer.startswith(REFUSAL):
        message = answer[1:].decode("utf-8", "replace")
        raise InputError(message, field="messages", fix=failed("", None).fix)
    raise _endless()


def _endless() -> InputError:
    return InputError(
        "the chat template of this model does not come to an end with these messages",
        field="messages",
        allowed=f"templates that take at most {CPU_S} second of a processor, and 512 MiB, for a conversation",
        fix="mend the template in the model's folder",
    )
