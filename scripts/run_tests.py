"""Runs all tests: a pytest for each group of folders, several at once, the largest group first.

    python scripts/run_tests.py [AT_ONCE] [PYTEST OPTIONS]

A process that took its share of all files would collect and import all of them, as every other one does: a tenth of the
suite's time. A group imports what it needs, and what is made once for its tests is made once; the large libraries are
loaded once for all groups and their servers, which are forked from the process that has them (tests/warm.py). Three at
once for two cores, as many tests wait for a server or a worker that they have started.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))
from warm import HUB, SCRIPT, Starter, WarmPopen, warm  # noqa: E402

APART = ("tests/clients", "tests/cookbook")
"""Need environments of their own, and have targets of their own."""

SURROUNDINGS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""Unless told otherwise: threads of libraries that spin while they wait take a fifth of the cores from the others."""

LIBRARIES = (
    *("pytest", "hypothesis", "transformers", "peft", "sklearn.linear_model", "tinker", "openai", "polars"),
    *("matplotlib.backends.backend_svg", "matplotlib.style", "jsonschema"),
)
"""Of most groups, beside those of a server."""

MEMORY = Path("/dev/shm")
"""File system in memory, on Linux: each flush of what tests write would wait some milliseconds for a disk."""

ROOM = 6 << 30
"""Bytes that must be free there."""

NO_TESTS = 5
"""pytest's exit code where no test was chosen."""

GROUPS: dict[str, tuple[str, ...]] = {
    "models, data": ("tests",),
    "studies": ("tests/studies",),
    "laboratory": ("tests/lab",),
    "engine": ("tests/engine",),
    "conformance": ("tests/conformance",),
    "workers, golden": ("tests/engine/cluster", "tests/golden"),
    "user tasks": ("tests/lab/user_task", "tests/lab/results", "tests/lab/service"),
    "server": ("tests/server",),
}
"""By name, the folders of each, the largest group first; a file is in the group that names the nearest folder above it.

None should take longer than half of the whole: sizes are printed, and in LOG.md.
"""

_COUNTED = re.compile(r"(\d+) (passed|failed|error|errors|skipped|xfailed|xpassed|deselected)")


@dataclass(slots=True)
class Group:
    """Files that one process tests."""

    name: str
    files: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Running:
    """A group that is being tested."""

    group: Group
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    begun: float


@dataclass(slots=True)
class Ended:
    """Tests of the groups that have ended."""

    counted: Counter[str] = field(default_factory=Counter[str])
    bad: list[str] = field(default_factory=list[str])
    """Lines that name the failed ones, to be printed last: what comes before them may be cut."""


def grouped() -> list[Group]:
    """Every test file, in its group."""
    groups = {name: Group(name) for name in GROUPS}
    owners = {folder: name for name, folders in GROUPS.items() for folder in folders}
    missing = [folder for folder in owners if not (ROOT / folder).is_dir()]
    assert not missing, f"no such folders of tests: {missing}"
    for path in sorted(TESTS.rglob("test_*.py")):
        file = path.relative_to(ROOT)
        above = [str(folder) for folder in file.parents]
        if any(folder in APART for folder in above):
            continue
        owner = next(owners[folder] for folder in above if folder in owners)
        groups[owner].files.append(str(file))
    return [group for group in groups.values() if group.files]


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for all that tests write: in memory where there is room."""
    in_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM
    in_memory = in_memory and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC  # tests start programs that they write
    place = str(MEMORY) if in_memory else None
    return tempfile.TemporaryDirectory(prefix="tinsmith-tests-", dir=place, ignore_cleanup_errors=True)


def begin(group: Group, options: list[str], scratch: Path) -> Running:
    """Start a group's pytest; what it says goes into a file, as several say something at once."""
    output = (scratch / f"{group.name}.log").open("w+b")
    command = [*SCRIPT, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    made = f"--basetemp={scratch / re.sub('[^a-z_]+', '-', group.name)}"
    process = subprocess.Popen(
        [*command, made, *options, *group.files],
        cwd=ROOT,
        env={**os.environ, "TESTS_SHARED": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    return Running(group, process, output, time.monotonic())


def computed() -> float:
    """Return the CPU seconds of the groups that have ended, and of the processes that they waited for."""
    times = os.times()
    return times.children_user + times.children_system


def end(done: Running, cpu: float, ended: Ended) -> None:
    """Print what a group said and took, and add how its tests ended. One that says nothing of its tests has failed."""
    done.output.seek(0)
    text = done.output.read().decode(errors="replace")
    done.output.close()
    seconds = time.monotonic() - done.begun
    print(f"== {done.group.name}: {seconds:.0f} s, {cpu:.0f} CPU-s\n{text.rstrip()}", flush=True)
    summaries = [line for line in text.splitlines() if _COUNTED.search(line)]
    found = _COUNTED.findall(summaries[-1]) if summaries else []
    counted = Counter({what.rstrip("s") if what == "errors" else what: int(n) for n, what in found})
    code = done.process.returncode
    none_chosen = code == NO_TESTS and counted["deselected"] > 0
    well = none_chosen or (code == 0 and counted.total() > 0)
    if not well and not counted["failed"] + counted["error"]:
        counted["error"] += 1  # it ended before it could count
        ended.bad.append(f"ERROR {done.group.name}: pytest ended with code {code}")
    ended.counted += counted
    ended.bad += [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]


def await_end(running: list[Running]) -> None:
    """Let those that were interrupted put away what their tests have started."""
    for each in running:
        try:
            each.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            each.process.kill()
        end(each, 0.0, Ended())


def main() -> int:
    at_once, options = 3, sys.argv[1:]
    if options and options[0].isdecimal():
        at_once, options = max(1, int(options[0])), options[1:]
    waiting, running, ended = grouped(), list[Running](), Ended()
    begun = time.monotonic()

    def terminated(number: int, _frame: object) -> None:
        for each in running:
            each.process.send_signal(signal.SIGINT)  # Ctrl-C reaches them by itself
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, terminated)
    os.environ |= {**SURROUNDINGS, **os.environ, "HF_HUB_CACHE": HUB}
    with scratch_folder() as name, warm() if sys.platform == "linux" else nullcontext():
        if sys.platform == "linux":
            WarmPopen.starter = Starter(*LIBRARIES)
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.append(begin(waiting.pop(0), options, Path(name)))
                time.sleep(0.1)
                for each in list(running):
                    before = computed()
                    if each.process.poll() is not None:
                        running.remove(each)
                        end(each, computed() - before, ended)
        finally:
            await_end(running)
    minutes, seconds = divmod(round(time.monotonic() - begun), 60)
    total = ended.counted
    bad = total["failed"] + total["error"]
    others = ", ".join(f"{n} {what}" for what, n in total.items() if what not in ("passed", "failed"))
    print(f"== all, in {minutes}:{seconds:02} min, {computed() / 60:.1f} CPU-min{', ' if others else ''}{others}")
    print(*ended.bad, f"{total['passed']} passed, {bad} failed", sep="\n")
    return 1 if bad or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
