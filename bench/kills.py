"""Kills a 20-step RL run at random moments: client, embedded server or both; each is resumed to the end, hashes equal.

The moment is uniform over the time of a run that is left alone, start and end included; what counts is how far the run
has come and not the clock, so that a busy machine kills at the same places. A resumed run may be killed again.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from golden_runs import RUNS, Ground, build, hashes_of
from killing import Command, Ended, Victim, lives

POLL_S = 0.01
MOST_KILLS = 3
AGAIN = 0.4
"""Chance of killing a resumed run again."""
WITHIN_S = 15.0
"""Seconds that an orphaned server may take to notice and leave."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Moment to kill: so many lines of metrics are there, and so much time has passed since."""

    lines: int
    after_s: float


@dataclass(slots=True)
class Trial:
    """One run, killed one or more times."""

    number: int
    kills: list[tuple[Victim, Moment, Ended]] = field(default_factory=list)
    refused: int = 0
    """Resumes that did not begin, because the server before was still leaving."""
    hashes: dict[str, str | None] = field(default_factory=dict)
    passed_over: int = 0


def lines_in(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def left_alone(ground: Ground, folder: Path) -> tuple[dict[str, str | None], list[float]]:
    """Run without a kill; return its hashes, and when each line of metrics was there, with the end."""
    seen: list[float] = []
    began = time.perf_counter()
    with Command(RUNS["rl"][0], ground.keys("rl", folder)) as command:
        while command.process.poll() is None:
            while len(seen) < lines_in(folder):
                seen.append(time.perf_counter() - began)
            time.sleep(POLL_S)
        ended = command.end()
    if ended.code:
        raise SystemExit(f"the run that is left alone failed: {ended.said}")
    return hashes_of(folder), [*seen, time.perf_counter() - began]


def draw(rng: random.Random, times: list[float]) -> Moment:
    at = rng.uniform(0.0, times[-1])
    lines = sum(when <= at for when in times)
    return Moment(lines, at - ([0.0, *times][lines]))


def killed(ground: Ground, folder: Path, victim: Victim, moment: Moment) -> tuple[Ended | None, Ended]:
    """Start or resume a run and kill it; return how it ended, by the kill (or None) and at last."""
    with Command(RUNS["rl"][0], ground.keys("rl", folder)) as command:
        reached: float | None = None
        while command.process.poll() is None:
            now = time.perf_counter()
            if reached is None and (lines_in(folder) >= moment.lines or moment.lines == 0):
                reached = now
            if reached is not None and now - reached >= moment.after_s:
                ended = command.kill(victim)
                return ended, ended
            time.sleep(POLL_S)
        return None, command.end()


def trial(number: int, seed: int, ground: Ground, folder: Path, times: list[float]) -> Trial:
    """Kill a run at seeded moments, and resume it to its end."""
    rng = random.Random(f"{seed}:{number}")
    told = Trial(number)
    wanted = 1
    while wanted < MOST_KILLS and rng.random() < AGAIN:
        wanted += 1
    while len(told.kills) < wanted:
        victim, moment = rng.choice(list(Victim)), draw(rng, times)
        by_kill, ended = killed(ground, folder, victim, moment)
        if by_kill is not None:
            told.kills.append((victim, moment, by_kill))
        elif ended.code == 0:
            break  # a resumed run came to its end before the moment
        elif "another server uses this state folder" in ended.said:
            told.refused += 1
        else:
            raise SystemExit(f"trial {number}: resumed, it failed: {ended.said}")
    while True:
        with Command(RUNS["rl"][0], ground.keys("rl", folder)) as command:
            ended = command.end()
        told.passed_over += ended.said.count("passed over")
        if ended.code == 0:
            break
        if "another server uses this state folder" not in ended.said:
            raise SystemExit(f"trial {number}: resumed, it failed: {ended.said}")
        told.refused += 1
    told.hashes = hashes_of(folder)
    return told


def orphans(pids: set[int]) -> set[int]:
    """Return the servers that are there still, after the time they may take."""
    end = time.monotonic() + WITHIN_S
    while any(map(lives, pids)) and time.monotonic() < end:
        time.sleep(POLL_S)
    return {pid for pid in pids if lives(pid)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="Number of the first trial.")
    chosen = parser.parse_args()
    equal, servers, slowest, left = 0, set[int](), 0.0, set[int]()
    with tempfile.TemporaryDirectory() as out:
        os.environ.setdefault("TINSMITH_HOME", f"{out}/home")
        ground = build()
        whole, times = left_alone(ground, Path(out) / "whole")
        print(f"left alone: {times[-1]:.1f} s; " + ", ".join(f"{k} {v}" for k, v in whole.items()))
        print("trial  killed at (lines of metrics + s)                        exit  client gone  hashes")
        for number in range(chosen.first, chosen.first + chosen.trials):
            one = trial(number, chosen.seed, ground, Path(out) / str(number), times)
            same = one.hashes == whole
            equal += same
            kills = ", ".join(f"{who} at {at.lines}+{at.after_s:.2f}" for who, at, _ in one.kills)
            codes = ",".join(str(ended.code) for *_, ended in one.kills)
            lost = [e.seconds for who, _, e in one.kills if who is Victim.SERVER]
            slowest = max([slowest, *lost])
            servers |= {e.server for *_, e in one.kills if e.server is not None}
            note = f"  ({one.refused} refused)" if one.refused else ""
            note += f"  ({one.passed_over} passed over)" if one.passed_over else ""
            print(
                f"{number:5}  {kills:55}  {codes:5} {max(lost, default=0.0):8.1f} s  "
                f"{'equal' if same else 'NOT EQUAL'}{note}",
                flush=True,
            )
        left = orphans(servers)
    reached = equal == chosen.trials and not left
    print(
        f"{equal} of {chosen.trials} equal; {len(left)} of {len(servers)} servers left over; a client whose server was "
        f"killed was gone within {slowest:.1f} s "
        f"(goal all equal, none left: {'reached' if reached else 'NOT reached'})"
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
