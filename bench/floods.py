"""Cost of one key's floods to another key's requests and the server's memory, on `tinsmith/nano`.

    python bench/floods.py [FLOOD ...] [--seconds 105]

One key samples one token a second; meanwhile another one, or somebody without a key, sends what no server should have
to bear. Told of each flood: the first key's latency at the median, at the 99th percentile (of a hundred figures:
between the largest and the one before it) and at most, how much the server's memory grew at its peak, and how many
requests of the flood were sent and answered.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

NANO = "tinsmith/nano"
ALICE, BOB = "tml-alice-floods-here", "tml-bob-asks-once-a-second"
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Server:
    """A server's process."""

    pid: int
    port: int

    def memory(self) -> float:
        """Resident megabytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    keys = folder / "keys.toml"
    keys.write_text("".join(f'[[key]]\nname = "{n}"\nkey = "{k}"\n' for n, k in (("alice", ALICE), ("bob", BOB))))
    keys.chmod(0o600)
    flags = ["--port", "0", "--state", str(folder / "state"), "--model", NANO, "--keys", str(keys)]
    command = [sys.executable, "-m", "tinsmith", "serve", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r":(\d+) ", line)
        assert found is not None, line
        try:
            yield Server(process.pid, int(found[1]))
        finally:
            process.terminate()


def post(port: int, path: str, body: bytes, key: str, method: str = "POST") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def asking(path: str, body: Callable[[int], object], method: str = "POST") -> Callable[[int, int], int]:
    """Return what sends the i-th request of a flood."""

    def ask(port: int, i: int) -> int:
        made = body(i)
        return post(port, path, made if isinstance(made, bytes) else json.dumps(made).encode(), ALICE, method)

    return ask


def completion(**more: object) -> dict[str, object]:
    return {"model": NANO, "prompt": "a", "max_tokens": 1, **more}


def nothing(port: int, i: int) -> int:
    """Send nothing."""
    del port, i
    time.sleep(1)
    return 0


def connections(port: int, _: int) -> int:
    """Open a connection that says nothing, and keep it."""
    KEPT.append(socket.create_connection(("127.0.0.1", port), timeout=60))
    if len(KEPT) > 15_000:
        KEPT.pop(0).close()
    return 0


KEPT: list[socket.socket] = []


def headers(port: int, i: int) -> int:
    """Send a head, or an address, without end."""
    begin = b"GET /" if i % 2 else b"GET /api/v1/healthz HTTP/1.1\r\nHost: localhost\r\nX: "
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line, suppress(OSError):
        line.sendall(begin)
        while True:
            line.sendall(b"a" * 65536)
    return 431


def grammar(i: int) -> str:
    rules = "".join(f"A{k}: A{k + 1} A{k + 1}\n" for k in range(40))
    return f'start: A0\n{rules}A40: "x{os.getpid()}-{i}"\n'


def sessions(port: int, i: int) -> int:
    """Make a session, or list all of them."""
    if i < 2000 or i % 4 == 0:
        return post(port, "/api/v1/create_session", b"{}", ALICE)
    if i % 4 == 1:
        return post(port, "/api/v1/sessions/search", b'{"display_name": "nobody"}', ALICE)
    listed = "sessions" if i % 4 == 2 else "training_runs"
    return post(port, f"/api/v1/{listed}?limit=10000", b"", ALICE, "GET")


FLOODS: dict[str, Callable[[int, int], int]] = {
    "none": nothing,
    "connections": connections,
    "headers": headers,
    "prompt lists": asking("/v1/completions", lambda _: completion(prompt=["a"] * 30_000)),
    "long prompts": asking("/v1/completions", lambda _: completion(prompt="x" * 2_000_000)),
    "grammars": asking("/v1/completions", lambda i: completion(guided_grammar=grammar(i))),
    "tokenize": asking("/tokenize", lambda i: {"model": NANO, "prompt": "hello world " * (2000 if i % 2 else 200_000)}),
    "sessions": sessions,
    "nested JSON": asking("/v1/completions", lambda _: b'{"model": "x", "a": [' + b"[]," * 5_000_000 + b"1]}"),
    "wide JSON": asking("/v1/completions", lambda _: b'{"model": "x", "prompt": [' + b"1," * 500_000 + b"1]}"),
    "widest JSON": asking(  # as many values as are read, and of the largest kind
        "/v1/completions", lambda _: b'{"model": "x", "prompt": [' + b'"ab",' * 262_000 + b"1]}"
    ),
    "JSON of members": asking(
        "/v1/completions", lambda _: b'{"model": "x", ' + b",".join(b'"k%d": 1' % k for k in range(120_000)) + b"}"
    ),
    "many prompts": asking("/v1/completions", lambda _: completion(prompt=["a"] * 2048)),
}


def flood(name: str, port: int, seconds: float, pipe: Connection) -> None:
    """Send requests of one kind for so long, several at once; tell how often each status came."""
    end, statuses, numbers = time.monotonic() + seconds, Counter[str](), count()

    def send() -> None:
        while time.monotonic() < end:
            try:
                statuses[str(FLOODS[name](port, next(numbers)))] += 1
            except (OSError, http.client.HTTPException) as error:
                statuses[type(error).__name__] += 1

    threads = [threading.Thread(target=send, daemon=True) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end + 1 - time.monotonic()))
    pipe.send(dict(statuses))
    os._exit(0)


def measure(server: Server, name: str, seconds: float) -> dict[str, object]:
    """One flood."""
    ours, theirs = get_context("spawn").Pipe()
    before = server.memory()
    process = get_context("spawn").Process(target=flood, args=(name, server.port, seconds, theirs), daemon=True)
    process.start()
    latencies: list[float] = []
    peak, over = before, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.05):
            peak = max(peak, server.memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    end = time.monotonic() + seconds
    failed = 0
    while time.monotonic() < end:
        begin = time.monotonic()
        try:
            failed += post(server.port, "/v1/completions", json.dumps(completion()).encode(), BOB) != 200
        except OSError:
            failed += 1
        latencies.append(time.monotonic() - begin)
        time.sleep(max(0.0, 1 - latencies[-1]))
    answered = ours.recv() if ours.poll(30) else {}
    process.join()
    over.set()
    watcher.join()
    return {
        "flood": name,
        "median_s": round(float(np.median(latencies)), 3),
        "p99_s": round(float(np.quantile(latencies, 0.99)), 3),
        "most_s": round(max(latencies), 3),
        "num": len(latencies),
        "failed": failed,
        "memory_MB": round(peak - before, 1),
        "answers": answered,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("floods", nargs="*", default=list(FLOODS))
    parser.add_argument("--seconds", type=float, default=105.0)
    given = parser.parse_args()
    bad = 0
    for name in given.floods:
        with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
            for key in (ALICE, BOB):
                post(server.port, "/v1/completions", json.dumps(completion(guided_regex="a")).encode(), key)
            told = measure(server, name, given.seconds)
        print(json.dumps(told), flush=True)
        bad += told["p99_s"] > 0.5 or told["memory_MB"] > 100 or bool(told["failed"])  # type: ignore[operator]
    return bad


if __name__ == "__main__":
    sys.exit(main())
