"""Starts `tinsmith serve` as a process of its own, and speaks to it without the SDK."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

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
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("tinsmith serve: "), (line, self.log.read_text())
        assert KEY not in line
        self.url = line.split()[2]
        self.http = httpx.Client(base_url=self.url, headers={"x-api-key": KEY}, timeout=60)

    def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        return self.http.post(f"/api/v1/{path}", json=body)

    def ok(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST; return the answer's JSON, which must be 200."""
        answer = self.post(path, body)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def future(self, request_id: str) -> httpx.Response:
        """Wait for a request's answer."""
        while True:
            answer = self.post("retrieve_future", {"request_id": request_id})
            if answer.status_code == 408:
                continue
            assert answer.status_code == 200, answer.text
            return answer

    def model(self) -> str:
        """Make a session with one model, and wait for it."""
        session = self.ok("create_session", {})["session_id"]
        asked = {"session_id": session, "model_seq_id": 0, "base_model": NANO}
        made = self.ok("create_model", {**asked, "lora_config": {"rank": 4, "seed": 1}})
        assert "error" not in self.future(made["request_id"]).json()
        return str(made["model_id"])

    def stop(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End it by a signal; return the exit code."""
        self.http.close()
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def __enter__(self) -> "Running":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.stop()


def wait_for_end(pid: int) -> None:
    """Return once a process that is not ours to wait for has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll()
    os.close(handle)


def gone(pid: int, *, within: float) -> bool:
    """Whether a process that is not ours to wait for ends in time."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
