"""Starts `tinsmith serve` as a process of its own, and speaks to it without the SDK."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from tinsmith.types.waits import STARTING

HANG_S = 120.0
"""A call that waits longer has met a hang: far more than a loaded machine needs."""
KEY = "tml-a-key-that-appears-nowhere-else"
NANO = "tinsmith/nano"


class Running:
    """A server that runs, and an HTTP client that has its key."""

    def __init__(self, state: Path, *flags: str, model: str = NANO) -> None:
        self.log = state.parent / f"{state.name}.log"
        command = [sys.executable, "-m", "tinsmith", "serve", "--port", "0", "--state", str(state)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, "--model", model, *flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "TINKER_API_KEY": KEY},
            )
        line = self.process.stdout.readline()
        assert line.startswith("tinsmith serve: "), (line, self.log.read_text())
        assert KEY not in line
        self.url = line.split()[2]
        self.http = httpx.Client(base_url=self.url, headers={"x-api-key": KEY}, timeout=HANG_S)

    def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        return self.http.post(f"/api/v1/{path}", json=body)

    def ok(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST; return the answer's JSON, which must be 200."""
        answer = self.post(path, body)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def future(self, request_id: str) -> httpx.Response:
        """Wait for a request's answer, which is there when the first poll ends."""
        answer = self.post("retrieve_future", {"request_id": request_id})
        assert answer.status_code == 200, answer.text
        return answer

    @property
    def complaints(self) -> list[str]:
        """Lines of its log but for those that tell how it starts."""
        return complaints(self.log.read_text(encoding="utf-8"))

    def model(self) -> str:
        """Make a session with one model, and wait for it."""
        session = self.ok("create_session", {})["session_id"]
        requests = {"session_id": session, "model_seq_id": 0, "base_model": NANO}
        made = self.ok("create_model", {**requests, "lora_config": {"rank": 4, "seed": 1}})
        assert "error" not in self.future(made["request_id"]).json()
        return str(made["model_id"])

    def stop(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End it by a signal; return the exit code."""
        self.http.close()
        self.process.send_signal(number)
        code = self.process.wait(timeout=HANG_S)
        self.process.stdout.close()
        return code

    def __enter__(self) -> "Running":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()


def complaints(said: str) -> list[str]:
    """Return the lines but for those that tell how a server starts."""
    return [line for line in said.splitlines() if not line.startswith(STARTING)]


def wait_for_end(pid: int) -> None:
    """Return once a process that is not ours to wait for has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    ended = poll.poll(HANG_S * 1000)
    os.close(handle)
    if not ended:
        raise TimeoutError(f"process {pid} goes on")


def wait_until(holds: Callable[[], bool]) -> None:
    """Return once this holds, looked at every few milliseconds."""
    for _ in range(int(HANG_S / 0.005)):
        if holds():
            return
        threading.Event().wait(0.005)
    raise TimeoutError("it never came to hold")
