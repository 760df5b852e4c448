"""Kills a part of a server's own Ray under load: it answers, or says why and ends with exit code 3.

    python bench/ray_death.py [TIMES] [PART ...]

PART is gcs_server, raylet or agent; without any, all three are killed TIMES times each. Prints what became of the
requests after the kill, by status, and of the server; exit 1 where a request hung or the server ended in another way.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

PARTS = {"gcs_server": "/gcs_server", "raylet": "raylet/raylet", "agent": "dashboard/agent.py"}
"""Parts of Ray, by a piece of their command lines or names."""
KEY = "tml-bench"
SECONDS = 30.0
"""A server whose Ray is dead has ended by then, or answers."""
CLIENTS = 4


@dataclass(slots=True)
class Load:
    """Clients that ask one thing after another."""

    url: str
    counts: Counter[str] = field(default_factory=Counter[str])
    reasons: set[str] = field(default_factory=set[str])
    """Texts of refusals."""
    since_last: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def start(self) -> None:
        """Begin to ask."""
        for number in range(CLIENTS):
            self.threads.append(threading.Thread(target=self._ask, args=(number,), daemon=True))
            self.threads[-1].start()

    def stop(self) -> int:
        """Ask no more; return how many requests have no end."""
        self.over.set()
        for thread in self.threads:
            thread.join(SECONDS)
        return sum(thread.is_alive() for thread in self.threads)

    def _ask(self, number: int) -> None:
        while not self.over.is_set():
            body = {"model": "tinsmith/nano", "prompt": f"{number}", "max_tokens": 64, "ignore_eos": True}
            status, text = ask(self.url + "/v1/completions", body)
            self.counts[status] += 1
            if status != "200":
                self.reasons.add(text[:160])
                time.sleep(0.2)


def ask(url: str, body: object = None) -> tuple[str, str]:
    """Return the status of an answer and its text; `no answer` where the connection ends before."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=2 * SECONDS) as answer:
            return str(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code), error.read().decode()
    except TimeoutError:
        return "hang", ""
    except OSError:
        return "no answer", ""


def part_of(server: int, part: str) -> int:
    """Return the process of a server's Ray that is this part."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            group = os.getsid(int(folder.name))
        except OSError:
            continue
        if PARTS[part] in line and group == server:
            return int(folder.name)
    raise SystemExit(f"there is no {part}")


def trial(part: str) -> bool:
    """Kill one part under load; print what became of it, and return whether that is right."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable,
            "-m",
            "tinsmith",
            "serve",
            "--model",
            "tinsmith/nano",
            "--port",
            "0",
            "--workers",
            "2",
        ]
        said = Path(scratch) / "said"
        env = {**os.environ, "TINKER_API_KEY": KEY}
        with said.open("wb") as out:
            server = subprocess.Popen(
                [*command, "--state", f"{scratch}/state"], stdout=out, stderr=out, env=env, start_new_session=True
            )
        try:
            return _killed(part, server, said)
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGTERM)
                server.wait(2 * SECONDS)


def _killed(part: str, server: subprocess.Popen[bytes], said: Path) -> bool:
    while not (found := re.search(r"tinsmith serve: (http://\S+)", said.read_text())):
        if server.poll() is not None:
            raise SystemExit(said.read_text())
        time.sleep(0.1)
    load = Load(found[1])
    load.start()
    while load.counts["200"] < 2 * CLIENTS:
        time.sleep(0.05)
    os.kill(part_of(server.pid, part), signal.SIGKILL)
    killed, before = time.monotonic(), load.counts.copy()
    health: Counter[str] = Counter()
    while time.monotonic() - killed < SECONDS and server.poll() is None:
        health[ask(found[1] + "/api/v1/healthz")[0]] += 1
        time.sleep(0.1)
    took, code = time.monotonic() - killed, server.poll()
    alive = code is None and health["503"] == 0 and load.counts["200"] > before["200"] + CLIENTS
    hangs = load.stop()
    after = {status: count - before[status] for status, count in load.counts.items() if count > before[status]}
    right = hangs == 0 and after.get("hang", 0) == 0 and (code == 3 or alive)
    verdict = "right" if right else "WRONG"
    end = "goes on" if code is None else f"exit {code} after {took:.1f} s"
    print(f"{part}: {verdict}; {end}; requests {after}, {hangs} without end; healthz {dict(health)}")
    for reason in sorted(load.reasons):
        print(f"  {reason}")
    if not right:
        print(said.read_text())
    return right


def _end(number: int, frame: object) -> None:
    del number, frame
    raise SystemExit(1)  # through the trial, which ends its server


def main(times: int, parts: list[str]) -> int:
    """Return 1 where one trial was wrong."""
    trials = [trial(part) for part in parts for _ in range(times)]
    print(f"{sum(trials)} of {len(trials)} right")
    return int(not all(trials))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    given = sys.argv[1:]
    times = next((int(each) for each in given if each.isdecimal()), 10)
    sys.exit(main(times, [each for each in given if each in PARTS] or list(PARTS)))
