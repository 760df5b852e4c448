"""Parts the benchmarks on SmolLM2-135M share: its weights, prompts of exact length, and sides as processes."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer

from sides.side import Measured
from tinsmith.renderers.corpus import builtin_corpus

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
OURS = Path(sys.executable)
MODEL = HERE / "out" / "smollm2"


@dataclass(frozen=True, slots=True)
class Way:
    """One program in one of its settings."""

    title: str
    script: str
    """In sides/."""
    setting: Mapping[str, object]
    python: Path = PEERS


class Side:
    """A process that does pieces of work; it loads the model when it starts."""

    def __init__(self, way: Way, options: argparse.Namespace) -> None:
        python = options.peers if way.python == PEERS else way.python
        self.way = way
        self._process = subprocess.Popen(
            [str(python), str(HERE / "sides" / way.script), str(options.model), str(options.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(options.threads)},
        )

    def run(self, task: Mapping[str, object]) -> Measured:
        """Do one piece of work.

        Raises:
            SystemExit: the side failed; its words are on standard error.
        """
        pipe = self._process
        assert pipe.stdin is not None
        assert pipe.stdout is not None
        pipe.stdin.write(json.dumps(task) + "\n")
        pipe.stdin.flush()
        line = pipe.stdout.readline()
        if not line:
            sys.exit(f"{self.way.title} failed")
        return Measured(**json.loads(line))

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def prompts(count: int, length: int, model: Path) -> list[list[int]]:
    """Ids of texts about papers, each of exactly `length` tokens, no two alike at the start."""
    tokenizer = AutoTokenizer.from_pretrained(model / "folder")
    sentences = iter(builtin_corpus())
    found: list[list[int]] = []
    while len(found) < count:
        words = f"{len(found) + 1}. " + " ".join(next(sentences) for _ in range(length // 8 + 4))
        text = tokenizer.decode(tokenizer(words)["input_ids"][:length])
        ids = tokenizer(text)["input_ids"]
        if len(ids) == length:
            found.append(ids)
    return found


def alternate(
    ways: Sequence[Way], task: Mapping[str, object], options: argparse.Namespace
) -> dict[str, list[Measured]]:
    """Every way `rounds` times, one after the other; the settings of one program share a process that stays.

    Raises:
        SystemExit: a side did another amount of work than its neighbours.
    """
    sides = {way.script: Side(way, options) for way in ways}
    taken: dict[str, list[Measured]] = {way.title: [] for way in ways}
    for number in range(options.warm + options.rounds):
        for way in ways:
            run = sides[way.script].run({**task, **way.setting})
            if number >= options.warm:
                taken[way.title].append(run)
                print(f"    {way.title}: {run.cpu:.2f} CPU-s, {run.wall:.2f} s wall", flush=True)
    for side in sides.values():
        side.close()
    counts = {way: runs[0].tokens for way, runs in taken.items()}
    if len(set(counts.values())) != 1:
        sys.exit(f"the sides did not do the same work: {counts} tokens")
    show(taken)
    return taken


def show(taken: Mapping[str, list[Measured]]) -> None:
    """Print the medians."""
    for title, runs in taken.items():
        run = median(runs)
        rate = f"{run.cpu / run.tokens * 1e3:.2f} CPU-ms a token"
        print(f"  {title}: {run.cpu:.2f} CPU-s, {run.wall:.2f} s wall, {rate}, {run.peak:.0f} MB")


def median(runs: Sequence[Measured]) -> Measured:
    """Of each figure by itself; the largest peak."""
    return Measured(
        tokens=runs[0].tokens,
        wall=statistics.median(run.wall for run in runs),
        cpu=statistics.median(run.cpu for run in runs),
        peak=max(run.peak for run in runs),
    )


def best(taken: Mapping[str, list[Measured]], script: str, ways: Sequence[Way], what: str) -> float:
    """The smallest median of a figure over the settings of one program."""
    runs = [median(taken[way.title]) for way in ways if way.script == script]
    return min(getattr(run, what) for run in runs)


def arguments(doc: str, **defaults: int) -> argparse.ArgumentParser:
    """The options that all of them have."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--model", type=Path, default=MODEL, help="as sides/weights.py makes it")
    parser.add_argument("--peers", type=Path, default=PEERS, help="python of the peers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=0, help="untimed runs before the timed one")
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return parser
