"""A server with workers that stays, and short runs on it: what `cluster_kills.py` kills, and how it is started again.

A client is forked from this process, which has imported what it needs: nothing is started that is not killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from kill_workers import below, workers_of

KEY = "tml-killed"
MODEL = "nano-base"
WORKERS = 2
HASHES = ("weights_sha256", "rollouts_sha256", "metrics_sha256")
SETTINGS = ("at=nano", "steps=6", "learning_rate=0.0006", "eval_every=0", "eval_items=16", "save_every=2", "quiet=true")
START_S = 300.0
LEAVE_S = 60.0
"""Seconds that a killed server's leftovers may take to end."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def lives(pid: int) -> bool:
    """Return true if a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass(slots=True)
class Served:
    """`tinsmith serve --workers 2` on one port and one state folder, whichever process it is."""

    base: Path
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; `wait` says when it answers."""
        command = [sys.executable, "-m", "tinsmith", "serve", "--model", f"{MODEL}={self.base}"]
        command += ["--workers", str(WORKERS), "--port", str(self.port)]
        command += ["--state", str(self.folder / "state")]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, env={**os.environ, "TINKER_API_KEY": KEY}, stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until it answers."""
        assert self.process is not None
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise SystemExit((self.folder / "server.log").read_text()[-2000:])
            try:
                with urllib.request.urlopen(f"{self.url}/api/v1/healthz", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the server did not answer")

    def workers(self) -> list[int]:
        """Process ids of its workers."""
        assert self.process is not None
        return workers_of(self.process.pid)

    def kill(self) -> list[int]:
        """Kill it; return all that ran below it."""
        assert self.process is not None
        under = below(self.process.pid)
        self.process.kill()
        self.process.wait()
        return under

    def stop(self) -> list[int]:
        """End it in order; return all that ran below it."""
        assert self.process is not None
        under = below(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(START_S)
        return under


@dataclass(frozen=True, slots=True)
class Client:
    """A process that carries out a run, or goes on with it."""

    pid: int

    @classmethod
    def start(cls, folder: Path, *where: str) -> Client:
        """Run in `folder`; what it says is in `folder.log`."""
        from tinsmith.cli import main

        changes = (*SETTINGS, *where, f"log_path={folder}", "behavior_if_log_dir_exists=resume")
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return cls(pid)
        os.environ["TINKER_API_KEY"] = KEY
        log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            main(["run", "rlvr", *changes])
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 1)
        finally:
            os._exit(70)

    def ended(self) -> int | None:
        """Its exit code; None while it runs; -9 once it was killed."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def end(self) -> int:
        """Wait for its end."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def left_over(pids: list[int]) -> list[int]:
    """Those of these processes that do not end by themselves."""
    end = time.monotonic() + LEAVE_S
    while time.monotonic() < end and any(lives(pid) for pid in pids):
        time.sleep(0.05)
    return [pid for pid in pids if lives(pid)]


def hashes(folder: Path) -> tuple[str, ...]:
    """Return a run's hashes; "" where it did not come to its end."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return tuple(str(manifest["hashes"][name]) for name in HASHES)
    except (OSError, KeyError, TypeError, ValueError):
        return ("",) * len(HASHES)


def pause(rng: random.Random, longest: float) -> float:
    """Seconds until the next kill: any moment of a run, its start and its end included."""
    return rng.uniform(0.0, longest)
