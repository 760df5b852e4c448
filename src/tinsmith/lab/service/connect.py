"""Connection of the official Tinker client to a remote server, or to one started for it.

The embedded server is a child process on a free loopback port with a random key. It ends with its parent however the
parent ends, because its standard input is a pipe that closes then; and only with it: in a session of its own it gets
no Ctrl-C that is meant for a notebook's cell or a script, and goes on serving whoever catches that.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Final

import tinker

from tinsmith.lab.live.progress import in_notebook
from tinsmith.lab.service.official_client import Ended, end_session
from tinsmith.types.errors import BackendError, LostError
from tinsmith.types.waits import READY, STARTING, Say, ticking

STILL_SECONDS: Final = 120.0
"""Seconds without activity after which a starting server is given up."""

# The SDK's transport would import them in a thread of its own at its first request, where import locks of Python 3.11
# have failed.
for _module in ("pyqwest._glue", "opentelemetry.metrics", "opentelemetry.propagate"):
    with suppress(ImportError):
        importlib.import_module(_module)

# At its end Python looks through all objects for garbage, several times: seconds after these imports, and many on a
# machine with other work. The process ends, so that nobody waits for what is found.
atexit.register(gc.freeze)

_LOOK_SECONDS: Final = 1.0
_REMEMBERED: Final = 50


class ServerOutput:
    """Output of a server: its address, progress lines and errors."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Read both to the end, each in a thread."""
        self.base_url = ""
        self.doing = "the server"
        self.wrong: list[str] = []
        """The last lines on its standard error that are no progress."""
        self.count = 0
        """Lines there so far."""
        self.settled = threading.Event()
        """Event set when the server has an address, or has ended."""
        assert process.stdout is not None, "both are pipes"
        assert process.stderr is not None, "both are pipes"
        sources = ((self._read_output, process.stdout), (self._read_errors, process.stderr))
        self._readers = [threading.Thread(target=read, args=(lines,), daemon=True) for read, lines in sources]
        for reader in self._readers:
            reader.start()

    def join(self) -> None:
        """Wait until all output was read."""
        for reader in self._readers:
            reader.join()

    def _read_output(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                if line.startswith(READY):
                    self.base_url = line.removeprefix(READY).split()[0]
                    self.settled.set()
        self.settled.set()

    def _read_errors(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self.count += 1
                if line.startswith(STARTING):
                    self.doing = line.removeprefix(STARTING).rstrip()
                else:
                    self.wrong.append(line.rstrip())
                    del self.wrong[:-_REMEMBERED]


def wait_until_ready(process: subprocess.Popen[str], output: ServerOutput, say: Say | None = None) -> str:
    """Return the address of a started server; `say` receives lines on a long start.

    A server that has been still for too long is ended.
    """
    since, state, gave_up = time.monotonic(), (0, 0), False
    with ticking(lambda: f"{STARTING}{output.doing}", say):
        while not gave_up and not output.settled.wait(_LOOK_SECONDS):
            before, state, now = state, (output.count, _cpu_ticks(process.pid)), time.monotonic()
            since = since if state == before else now
            gave_up = now - since > STILL_SECONDS
    if output.base_url:
        return output.base_url
    if gave_up:
        process.kill()
    process.wait()
    output.join()
    if gave_up:
        what = f"the embedded server neither wrote nor computed anything for {STILL_SECONDS:.0f} s, and was stopped"
        fix = "check the disk, the memory and the load of this machine"
        raise BackendError(what, field="last line", value=output.doing, fix=fix)
    if process.returncode < 0:
        what = f"the embedded server was ended by {_signal_name(-process.returncode)} before it answered"
        fix = "try again; if nobody stopped it, memory ran out: free some, or use a smaller model"
        raise LostError(what, field="last line", value=output.doing, fix=fix)
    last = "\n".join(output.wrong[-5:]) or f"exit code {process.returncode}"
    raise BackendError(f"the embedded server did not start: {last}")


def _cpu_ticks(pid: int) -> int:
    """Return the processor time of a process and its threads; 0 if the system does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


class Tombstone:
    """HTTP server on a dead server's port that rejects every request."""

    def __init__(self, port: int, message: str) -> None:
        """Serve on loopback until `close`; binding may raise OSError where the port was taken meanwhile."""
        body = json.dumps({"error": message, "category": "server", "detail": message}).encode()

        class Refuse(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                # A future fails with 200 and an error; anything else is refused with a status that is not repeated.
                # Telemetry is taken, as the server takes it: the SDK would print a traceback for each that is not.
                if self.path.endswith("/telemetry"):
                    self._answer(200, b'{"status": "accepted"}')
                else:
                    self._answer(200 if self.path.endswith("/retrieve_future") else 400)

            def do_GET(self) -> None:
                self._answer(400)

            do_PUT = do_DELETE = do_GET

            def _answer(self, status: int, content: bytes = body) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Refuse)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


_CLOSE_SECONDS = 5.0
_ABANDON_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSettings:
    """Settings of an embedded server; each field is a flag of `tinsmith serve`, with the same default."""

    models: Mapping[str, str]
    """Served name -> folder or built-in name."""
    arithmetic: str = "canonical"
    device: str = "cpu"
    seed: int = 0
    state: Path | None = None
    """Folder of checkpoints; None: the default under TINSMITH_HOME."""
    threads: int = 0
    """Of the kernels; 0: as many as the server finds."""
    micro_batch: int = 0
    """Most units of gradient computed at once; 0: as many as memory allows. Changes no bit."""
    hold: str = "published"
    """Form of a base in memory (`types.hold`). Changes no bit."""
    workers: int = 0
    """Number of worker processes; 0 computes in the server. Changes no bit."""
    shards: int = 1
    """Number of workers that share one copy of the base. Changes no bit."""
    deviation: str = "none"
    """Deliberate fault of the server (`types.deviation`)."""
    gradient_unit: str = "tree"
    """Unit of gradient (`types.arithmetic`)."""
    unit_hashes: bool = False
    """True to hash each unit of gradient in the trace. Changes no computed bit."""


class EmbeddedServer:
    """Server in a child process, with a watch on it."""

    def __init__(self, settings: EmbeddedSettings, say: Say | None = None) -> None:
        """Start the server and wait for its address; an interrupt ends it."""
        self.key = f"tml-{secrets.token_hex(16)}"
        around = {"TINKER_API_KEY": self.key}
        if settings.threads:
            around["TINSMITH_THREADS"] = str(settings.threads)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tinsmith", *_command(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **around},
            start_new_session=True,
        )
        self._output = ServerOutput(self._process)
        try:
            self.base_url = wait_until_ready(self._process, self._output, say)
        except BaseException:
            # It has not started to serve, and has no state to save.
            self._process.kill()
            self._process.wait()
            self._output.join()
            self._close_input()
            raise
        self._closing = False
        self._tombstone: Tombstone | None = None
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if the process runs; a dead server's port is taken over by its tombstone."""
        return self._process.poll() is None

    def close(self) -> None:
        """Stop the server; harmless if it has ended."""
        self._closing = True
        atexit.unregister(self.close)
        self._close_input()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._watcher.join()
        self._output.join()
        if self._tombstone is not None:
            self._tombstone.close()
            self._tombstone = None

    def end(self) -> None:
        """Kill the server; its checkpoints stay complete, since each is written atomically."""
        self._closing = True
        self._process.kill()
        self.close()

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _watch(self) -> None:
        code = self._process.wait()
        if self._closing:
            return
        detail = f": {self._output.wrong[-1]}" if self._output.wrong else ""
        with suppress(OSError):
            port = int(self.base_url.rsplit(":", 1)[1])
            self._tombstone = Tombstone(port, f"the embedded server died (exit code {code}){detail}")


def _command(settings: EmbeddedSettings) -> list[str]:
    # It ends with its client; one that was stopped for days, by Ctrl-Z, finds its models when it goes on.
    command = ["serve", "--port", "0", "--exit-with-stdin", "--session-timeout", "0"]
    for name, source in settings.models.items():
        command += ["--model", f"{name}={source}"]
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.name not in ("models", "threads") and value != one.default:
            flag = f"--{one.name.replace('_', '-')}"
            command += [flag] if value is True else [flag, str(value)]
    return command


@dataclass(slots=True)
class Connection:
    """Official client with its server; close it to stop an embedded one."""

    client: tinker.ServiceClient
    base_url: str | None
    """None: where TINKER_BASE_URL or the SDK's own default leads."""
    key: str | None = field(repr=False)
    """None: TINKER_API_KEY, as always with the SDK."""
    server: EmbeddedServer | None = None

    def close(self) -> None:
        """End the session, and the embedded server if there is one; harmless when repeated."""
        with suppress(tinker.TinkerError, TimeoutError):  # a lost server is told nothing
            end_session(self.client, Ended.SUCCESS, _CLOSE_SECONDS)
        if self.server is not None:
            self.server.close()

    def abandon(self) -> None:
        """End without waiting for pending requests, whose results are not needed."""
        if self.server is not None:
            self.server.end()
            return
        with suppress(tinker.TinkerError, TimeoutError):
            end_session(self.client, Ended.INTERRUPTED, _ABANDON_SECONDS)


def open_connection(base_url: str | None, settings: EmbeddedSettings, say: Say | None = None) -> Connection:
    """Connect to `base_url`, or to a server started with these settings; `say` receives lines meanwhile."""
    if in_notebook():
        # A cell runs on an event loop that waits for it; the SDK warns of that at each call, but in Jupyter.
        logging.getLogger("tinker.lib.sync_only").setLevel(logging.ERROR)
    if base_url is not None:
        return Connection(tinker.ServiceClient(base_url=base_url), base_url, None)
    server = EmbeddedServer(settings, say)
    client = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
    return Connection(client, server.base_url, server.key, server)


def connect(
    base_url: str | None = None,
    *,
    models: Mapping[str, str] | None = None,
    arithmetic: str = "canonical",
    device: str = "cpu",
    seed: int = 0,
    state: Path | None = None,
) -> tinker.ServiceClient:
    """Return the official `tinker.ServiceClient`.

    With `base_url` it talks to that server (the key is TINKER_API_KEY, as always with the SDK). Without, a server is
    started here and lives until the process ends; the other arguments are its flags.

    Raises:
        BackendError: the embedded server did not start.
    """
    served = models or {"tinsmith/nano": "tinsmith/nano"}
    settings = EmbeddedSettings(models=served, arithmetic=arithmetic, device=device, seed=seed, state=state)
    return open_connection(base_url, settings).client
