"""Place of the cookbook's programs: a folder in which public names lead to small things, and a server beside it."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foreign_programs import Environment
from tiny_model import NAME

from running import KEY, Running

COOKBOOK = Environment(os.environ.get("COOKBOOK_ENVIRONMENT", ".venv-cookbook"), "conformance-cookbook")
SCRIPTS = Path(__file__).parent / "scripts"

NO_MISMATCH = {(0.0, 0.0)}
"""Every sampled token has the same log-probability in the sampler and in the trainer, bit for bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Output of a program of the cookbook that ended."""

    log: Path
    printed: str
    rows: list[dict[str, Any]]
    """Its metrics, one row per step; those of earlier runs of the same log come first."""
    checkpoints: list[dict[str, Any]]
    """Checkpoints, in order; likewise."""

    def column(self, name: str) -> list[Any]:
        """One metric of every row; None where a row lacks it."""
        return [row.get(name) for row in self.rows]

    def mismatch(self) -> set[tuple[float, float]]:
        """The cookbook's two measures of how far the sampler's log-probabilities are from the trainer's."""
        first = self.column("optim/kl_sample_train_v1")
        return set(zip(first, self.column("optim/kl_sample_train_v2"), strict=True))

    def untimed(self) -> list[dict[str, Any]]:
        """Its metrics without those that are times."""
        return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in self.rows]

    def rollouts(self) -> list[dict[str, Any]]:
        """Every rollout it trained on, in order."""
        files = sorted(self.log.glob("iteration_*/train_rollout_summaries.jsonl"))
        return [line for file in files for line in _lines(file)]


@dataclass(frozen=True, slots=True)
class Workbench:
    """A folder that the programs run in; `log_path`s are relative to it."""

    folder: Path

    def serve(self, state: Path, *, seed: int = 0) -> Running:
        """Start `tinsmith serve` on the tiny model, under the name that the recipes know."""
        return Running(state, "--seed", str(seed), model=f"{NAME}={self.folder / NAME}")

    def run(self, server: Running, log: str, command: Sequence[str], *, code: int = 0) -> Program:
        """Run a module or script of the cookbook's environment to its end, against a server.

        Args:
            server: all that the program learns of it is its address and its key.
            log: the program's log_path; the one of an earlier run, to go on from it.
            command: what follows `python`, without log_path.
            code: the exit code it must have.
        """
        printed = COOKBOOK.run([*command, f"log_path={log}"], folder=self.folder, told=told(server), code=code)
        assert "Traceback" not in printed, printed
        folder = self.folder / log
        return Program(
            log=folder,
            printed=printed,
            rows=_lines(folder / "metrics.jsonl"),
            checkpoints=_lines(folder / "checkpoints.jsonl"),
        )


def told(server: Running) -> dict[str, str]:
    """Return variables that tell of a server."""
    return {"TINKER_BASE_URL": server.url, "TINKER_API_KEY": KEY, "TINKER_TELEMETRY": "0"}


def recipe(name: str, **options: object) -> list[str]:
    """The command that runs a recipe as the cookbook's users do."""
    return ["-m", f"tinker_cookbook.recipes.{name}", *_arguments({"model_name": NAME, **options})]


def script(name: str, options: Mapping[str, object]) -> list[str]:
    """The command that runs one of the scripts beside this file."""
    return [str(SCRIPTS / f"{name}.py"), *_arguments({"model_name": NAME, **options})]


def _arguments(options: Mapping[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
