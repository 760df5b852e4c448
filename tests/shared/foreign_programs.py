"""Runs programs of other environments: what they learn of this project is what they are told, an address and a key."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 300.0
"""Most that one program may take: a request that is never answered is a failure, not a wait."""

_OURS = ("PYTHON", "VIRTUAL_ENV", "TINKER_", "TINSMITH_", "OPENAI_", "ANTHROPIC_", "HF_", "WANDB_")
"""Beginnings of variables that would lead to this project, or away from this machine."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder with other people's packages, which a target of the Makefile makes."""

    name: str
    target: str

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return ROOT / self.name / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Folder of its packages."""
        [found] = (ROOT / self.name / "lib").glob("python*/site-packages")
        return found

    def require(self) -> None:
        """Fail where the environment was not made."""
        assert self.python.exists(), f"{self.name} is missing: run `make {self.target}`"

    def run(
        self, command: Sequence[str], *, folder: Path, told: Mapping[str, str], code: int = 0, seconds: float = SECONDS
    ) -> str:
        """Run a program to its end, offline; return what it printed.

        Args:
            command: what follows `python`.
            folder: where it runs, and where its caches are.
            told: environment variables, beside those that have nothing to do with this project.
            code: the exit code it must have.
            seconds: most that it may take.
        """
        path = os.pathsep.join((str(self.python.parent), os.environ["PATH"]))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "PATH": path}
        done = subprocess.run(
            [str(self.python), *command],
            cwd=folder,
            env={**kept, **offline, **told},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}"
        return done.stdout
