"""Place of other people's clients: a folder, a server of small models, and the recipes of docs/use-with.md."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import talking_model
from foreign_programs import ROOT, SECONDS, Environment

from running import KEY, NANO, Running

CLIENTS = Environment(".venv-clients", "conformance-clients")
VERIFIERS = Environment(".venv", "conformance-clients")
PROGRAMS = Path(__file__).parent / "programs"
PAGE = ROOT / "docs" / "use-with.md"

TALKER = talking_model.NAME

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ADDRESS, _KEY, _FOLDER = "http://127.0.0.1:8000", "tml-mine", "FOLDER"
"""The server's address, its key and a model's folder, as the page has them."""

QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_DATASETS_OFFLINE": "1",
    "INSPECT_DISPLAY": "none",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_COLOR": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Nothing is asked of the network, and nothing is drawn."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """A folder that the clients run in."""

    folder: Path

    def serve(self, state: Path, *, seed: int = 0) -> Running:
        """Start `tinsmith serve` on nano, and on the model that answers and calls tools."""
        talker = f"{TALKER}={self.folder / TALKER}"
        return Running(state, "--seed", str(seed), "--model", talker)

    def run(self, server: Running, program: str, *arguments: str, seconds: float = SECONDS) -> Any:
        """Run one of the programs beside this file; return what its last line says in JSON."""
        command = [str(PROGRAMS / f"{program}.py"), *arguments]
        told = _told(server)
        printed = CLIENTS.run(command, folder=self.folder, told=told, seconds=seconds)
        return json.loads(printed.splitlines()[-1])

    def command(
        self, server: Running, name: str, *arguments: str, environment: Environment = CLIENTS, **more: str
    ) -> str:
        """Run a command that one of the clients installs, with `more` variables; return what it printed."""
        script = str(environment.python.with_name(name))
        told = {**_told(server), **more}
        return environment.run([script, *arguments], folder=self.folder, told=told)

    def recipe(self, server: Running, heading: str, *, model: str = NANO) -> str:
        """Run what docs/use-with.md has under a heading, as it stands there; return what it printed.

        Blocks of a file (`yaml`, or Python whose first line is a comment with a name) are written first. The last
        block is run.
        """
        blocks = recipe(heading, server.url, model)
        for name, text in blocks[:-1]:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")
        kind, text = blocks[-1]
        if kind == "sh":
            text = f"import subprocess, sys; sys.exit(subprocess.call(['bash', '-euc', {text!r}]))"
        return CLIENTS.run(["-c", text], folder=self.folder, told=_told(server))


def recipe(heading: str, url: str, model: str) -> list[tuple[str, str]]:
    """The blocks under a heading: (file's name, or sh or python for the last; text), with this server's address."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = dict(zip(parts[1::2], parts[2::2], strict=True))[heading]
    named: list[tuple[str, str]] = []
    for kind, block in _BLOCK.findall(text):
        body = block.replace(_ADDRESS, url).replace(_KEY, KEY)
        body = body.replace(NANO, model).replace(_FOLDER, TALKER)
        first = re.match(r"# (\S+\.(?:py|ya?ml|json))\n", body)
        named.append((first[1] if first else kind, body))
    return named


def _told(server: Running) -> Mapping[str, str]:
    return {
        **QUIET,
        "SERVER": server.url,
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
    }
