"""A run that came to its end, opened once more: its server on its own state, and its policies to be asked.

Nothing is trained, and nothing of the run's folder is written but its server's notes of who asked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from tinsmith.lab.experiment.circumstances import located
from tinsmith.lab.experiment.conduct import embedded_settings
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.materials import Materials, gather
from tinsmith.lab.experiment.replay import changes_of
from tinsmith.lab.live.progress import Say
from tinsmith.lab.runs.files import MANIFEST
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.kinds import Kind, Status
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.service.asked_policy import AskedPolicy
from tinsmith.lab.service.connect import Connection, open_connection
from tinsmith.models.base import tokenizer_of
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BASE: Final = "base"
FINAL: Final = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """A finished run and its server."""

    plan: Plan
    materials: Materials
    connection: Connection
    paths: Mapping[str, str]
    """Where weights were saved, by the step after which it was; the last one's is FINAL too."""

    def base(self) -> AskedPolicy:
        """Return the base that it was trained from."""
        return AskedPolicy.base(self.connection, self.materials.model_name)

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Return its base's tokenizer."""
        for source in self.materials.models.values():
            return tokenizer_of(source)
        return self.base().client.get_tokenizer()

    def policy(self, when: str = FINAL) -> AskedPolicy:
        """Return its policy after a step, after the last one (FINAL), or before any (BASE)."""
        if when == BASE:
            return self.base()
        if when not in self.paths:
            raise ConfigError(
                "no weights of this run were saved then", field="@", value=when, allowed=", ".join([BASE, *self.paths])
            )
        return AskedPolicy.checkpoint(self.connection, self.paths[when])


@contextmanager
def reopened(plan: Plan, folder: Path, say: Say) -> Generator[Reopened, None, None]:
    """Open the run of a plan in a folder; its server ends with the body."""
    manifest = RunFolder(folder).read_json(MANIFEST)
    selected = cast(Mapping[str, str] | None, manifest.get("selected"))
    if manifest.get("status") != Status.FINISHED.value or selected is None:
        raise ConfigError("there is no run that came to its end", field="run", value=str(folder))
    materials = gather(plan, say)
    connection = open_connection(plan.circumstances.base_url, embedded_settings(plan, materials.models, folder))
    try:
        yield Reopened(
            plan=plan,
            materials=materials,
            connection=connection,
            paths={**_saved(folder), FINAL: selected["final_path"]},
        )
    finally:
        connection.close()


def _saved(folder: Path) -> dict[str, str]:
    return {str(one.step): one.state_path for one in read_run(folder).checkpoints if one.state_path}


def plan_again(folder: Path, kinds: Sequence[Kind], plan_of: Callable[[str, Mapping[str, str]], Plan]) -> Plan:
    """Return the plan of a run of one of these kinds from its folder."""
    run = read_run(folder)
    if run.config.kind not in kinds:
        raise ConfigError(
            "only runs on a task of one's own, or a kept one, can be looked at",
            field="run",
            value=f"{folder}: {run.config.kind.value}",
            allowed=", ".join(kinds),
        )
    manifest = RunFolder(folder).read_json(MANIFEST)
    around = located(manifest, folder)
    entry = plan_of(str(around.get("task") or run.config.title), {}).experiment.subject
    return plan_of(str(around.get("task") or run.config.title), changes_of(run, around, entry, None, {}))
