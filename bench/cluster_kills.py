"""Kills clients, servers and workers of short runs on a server with workers: every run must come to one set of hashes.

    python bench/cluster_kills.py [KILLS] [--seed N] [--only client|server|worker] [--hours H]

Who is killed, and when, is drawn. A killed client is started again, and goes on; so is a killed server, with its state;
a worker is replaced by the server. A run may be killed several times. Exit 1 where a hash differs from that of one
undisturbed process without workers, or a process is left over.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from killed_ground import MODEL, Client, Served, hashes, left_over, pause

LONGEST_S = 4.0
"""Between two kills: an undisturbed run takes about as long on a machine that does nothing else."""
PATIENCE_S = 1800.0
"""A run that takes longer hangs."""


class Victim(StrEnum):
    """Who is killed."""

    CLIENT = "client"
    SERVER = "server"
    WORKER = "worker"


SHARES = {Victim.CLIENT: 0.45, Victim.WORKER: 0.45, Victim.SERVER: 0.1}
"""Shares of the kills: a server takes the longest to come back."""


@dataclass(slots=True)
class Tally:
    """Kills and runs so far, and their outcomes."""

    kills: Counter[Victim] = field(default_factory=Counter[Victim])
    runs: int = 0
    differing: list[str] = field(default_factory=list[str])
    left: list[int] = field(default_factory=list[int])
    seconds: dict[Victim, list[tuple[float, int]]] = field(default_factory=dict[Victim, list[tuple[float, int]]])
    """Seconds of runs in which only such victims were killed, and how many were."""
    restarts: Counter[int] = field(default_factory=Counter[int])
    """Clients that ended before their run, by exit code."""


def killed(server: Served, folder: Path, rng: random.Random, tally: Tally, shares: dict[Victim, float]) -> None:
    """Carry out one run with kills, to its end."""
    where = (f"base_url={server.url}", f"model_name={MODEL}")
    began = time.monotonic()
    client = Client.start(folder, *where)
    planned = rng.choice((1, 3, 5, 8))
    victims = [rng.choices(list(shares), list(shares.values()))[0] for _ in range(planned)]
    moments = iter([(victim, pause(rng, LONGEST_S)) for victim in victims])
    following, next_at = next(moments), time.monotonic()
    next_at += following[1]
    done: list[Victim] = []
    while True:
        code = client.ended()
        if code == 0:
            break
        if code is not None:
            tally.restarts[code] += 1
            server.wait()
            client = Client.start(folder, *where)
        if following is not None and time.monotonic() >= next_at:
            if _kill(following[0], client, server, tally, rng):
                done.append(following[0])
            following = next(moments, None)
            next_at = time.monotonic() + (following[1] if following else 0.0)
        if time.monotonic() - began > PATIENCE_S:
            os.kill(client.pid, signal.SIGKILL)
            client.end()
            tally.differing.append(f"{folder.name} hangs after {', '.join(done)}")
            return
        time.sleep(0.01)
    tally.runs += 1
    if len(set(done)) == 1:
        tally.seconds.setdefault(done[0], []).append((time.monotonic() - began, len(done)))


def _kill(victim: Victim, client: Client, server: Served, tally: Tally, rng: random.Random) -> bool:
    if victim is Victim.CLIENT:
        os.kill(client.pid, signal.SIGKILL)
    elif victim is Victim.WORKER:
        there = server.workers()
        if not there:
            return False  # the last one's successor is still to come
        os.kill(rng.choice(there), signal.SIGKILL)
    else:
        under = server.kill()
        tally.left += left_over(under)
        server.start()
    tally.kills[victim] += 1
    return True


def undisturbed(scratch: Path) -> tuple[tuple[str, ...], Path]:
    """(hashes of a run by one process without workers, the folder of the base that it trained)."""
    folder = scratch / "alone"
    if Client.start(folder).end():
        raise SystemExit((scratch / "alone.log").read_text()[-2000:])
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return hashes(folder), Path(str(manifest["circumstances"]["model_folder"]))


def main() -> int:
    """Kill, and tell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kills", nargs="?", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=Victim, choices=list(Victim))
    parser.add_argument("--hours", type=float, default=24.0)
    asked = parser.parse_args()
    shares = SHARES if asked.only is None else {asked.only: 1.0}
    rng, tally = random.Random(asked.seed), Tally()
    end = time.monotonic() + 3600 * asked.hours
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        expected, base = undisturbed(scratch)
        server = Served(base, scratch)
        server.start()
        atexit.register(server.kill)
        server.wait()
        plain: list[float] = []
        for i in range(3):
            began = time.monotonic()
            folder = scratch / f"plain-{i}"
            code = Client.start(folder, f"base_url={server.url}", f"model_name={MODEL}").end()
            plain.append(time.monotonic() - began)
            if code or hashes(folder) != expected:
                print((scratch / f"plain-{i}.log").read_text()[-2000:])
                raise SystemExit("a run that nobody disturbed has other hashes")
        while sum(tally.kills.values()) < asked.kills and time.monotonic() < end:
            folder = scratch / f"run-{tally.runs + len(tally.differing)}"
            killed(server, folder, rng, tally, shares)
            if hashes(folder) != expected:
                tally.differing.append(folder.name)
                kept = Path(tempfile.mkdtemp(prefix="differs-"))
                shutil.copytree(folder, kept / folder.name)
            else:
                shutil.rmtree(folder)
            if tally.runs % 10 == 0:
                print(_line(tally), flush=True)
        tally.left += left_over(server.stop())
    print(_line(tally))
    print(f"an undisturbed run: {statistics.median(plain):.1f} s")
    for victim, runs in sorted(tally.seconds.items()):
        lost = [(seconds - statistics.median(plain)) / kills for seconds, kills in runs]
        print(f"a {victim} killed: {statistics.median(lost):.1f} s more (median of {len(runs)} runs)")
    return 1 if tally.differing or tally.left else 0


def _line(tally: Tally) -> str:
    kills = ", ".join(f"{count} {victim}" for victim, count in sorted(tally.kills.items()))
    codes = ", ".join(f"{count}x {code}" for code, count in sorted(tally.restarts.items()))
    return (
        f"{sum(tally.kills.values())} kills ({kills}) in {tally.runs} runs: {len(tally.differing)} differing, "
        f"{len(tally.left)} processes left over; clients ended with {codes or 'no error'}"
    )


if __name__ == "__main__":
    sys.exit(main())
