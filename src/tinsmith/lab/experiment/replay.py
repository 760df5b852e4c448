"""Replay of a run from its folder, and bit-for-bit comparison of the two.

The plan is made again from the experiment's name and what was changed of it; papers and model are found where the run
found them. A replay of some steps only stops after them: its settings are those of the whole run.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from tinsmith.lab.bundle.archive import CRATE
from tinsmith.lab.difference.runs import Comparison, compare_runs
from tinsmith.lab.experiment.conduct import conduct, embedded_settings
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.key_text import Circumstances, shown_value
from tinsmith.lab.experiment.manifest import Json, changed_identity, located
from tinsmith.lab.experiment.materials import Materials, gather, named_model, on_base, with_model
from tinsmith.lab.runs.files import CONFIG, MANIFEST, SERVED_NAME, Kind, Status
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Manifest, Run
from tinsmith.lab.service.connect import Connection, open_connection
from tinsmith.lab.service.served_policy import ServedPolicy
from tinsmith.lab.user_task.entry import Asking
from tinsmith.models.base import tokenizer_of
from tinsmith.models.published.sources import is_here
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.waits import Say

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PlanOf = Callable[[str, Mapping[str, str]], Plan]
"""Function that makes a plan of a name, or another source of a run, and `key=value` changes."""
_PACKAGE: Final = ("tinsmith", "source_sha256")
"""Identity fields that name package versions; a mismatch there does not block a replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Replay of a run, with its comparison."""

    comparison: Comparison  # The original is the first, the replay the second.
    folder: Path | None  # Where the replay is kept; None: it was equal, and no folder was named for it.
    original_s: float  # What the compared steps took then.
    replay_s: float


def replay(
    folder: Path,
    plan_of: PlanOf,
    *,
    steps: int | None,
    out: Path | None,
    say: Say,
    here: Mapping[str, str] | None = None,
    beside: Path | None = None,
) -> Replayed:
    """Replay `folder`'s run for `steps` steps or to its last one; `here` overrides keys of location and speed.

    Without `out` the replay lies in a new folder in `beside`, by default beside the run.
    """
    run, manifest = read_run(folder), RunFolder(folder).manifest()
    is_remote = manifest.circumstances.get("base_url") is not None
    if manifest.status == Status.FINISHED.value and not is_remote and not manifest.model.get("fingerprint"):
        raise DataError("the fingerprint of the base is missing", field=MANIFEST, value=str(folder))
    steps = _steps(run, manifest, steps)
    materials = remake(run, manifest, plan_of, steps, say, here or {})
    fresh = out or Path(tempfile.mkdtemp(prefix=f"{folder.name}-replay-", dir=beside or folder.parent))
    plan = replace(materials.plan, circumstances=replace(materials.plan.circumstances, log_path=fresh))
    try:
        conduct(plan, say=say, materials=materials, like=manifest)
        comparison = compare_runs((folder, fresh), steps=steps)
        seconds = [seconds_of(each, steps) for each in (run, read_run(fresh))]
    except BaseException:
        if out is None:
            shutil.rmtree(fresh, ignore_errors=True)
        raise
    if out is None and comparison.equal:
        shutil.rmtree(fresh)
    return Replayed(
        comparison=comparison, folder=fresh if fresh.exists() else None, original_s=seconds[0], replay_s=seconds[1]
    )


def remake(
    run: Run, manifest: Manifest, plan_of: PlanOf, steps: int | None, say: Say, here: Mapping[str, str]
) -> Materials:
    """Return a run's plan, shortened to so many steps, with its materials, both recreated.

    `here` are keys of where and how fast to run that are others now; `task` is where its file lies.
    """
    around = located(manifest, run.folder)
    opened_by = here.get("task") or around.get("task") or run.config.title
    keys = {key: value for key, value in here.items() if key != "task"}
    plan = plan_of(str(opened_by), changes_of(run, around, steps, keys))
    if decisive := keys.keys() & plan.overrides.keys():
        where = {key: value for key, value in keys.items() if key not in decisive}
        before = plan_of(str(opened_by), changes_of(run, around, steps, where))
        first, second = (
            {**each.experiment.subject.own_keys, **each.resolved(), **each.overrides} for each in (before, plan)
        )
        for key in sorted(decisive):
            if first.get(key) != second[key]:
                what = "a replay repeats a run as it was: only where and how fast it computes may change"
                fix = f"leave {key} out; `tinsmith run` with {key}={shown_value(second[key])} is another run"
                raise ConfigError(what, field=key, value=second[key], allowed=shown_value(first.get(key)), fix=fix)
    run_data = plan.experiment.subject.run_data(plan, say)
    # What changed of its data or code is told before a base is built.
    for each in changed_identity(manifest, Materials(plan=plan, run_data=run_data, model_name="", models={})):
        if each.name not in _PACKAGE:
            what = f"this run cannot be replayed here: its {each.name} has changed"
            fix = "restore it, or run the experiment again as it is now"
            raise ConfigError(what, field=each.name, value=each.second, allowed=str(each.first), fix=fix)
        say(f"warning: {each.name} was {str(each.first)[:16]}, and is {str(each.second)[:16]} now")
    base = str(around.get("model_folder") or "")
    is_built = named_model(plan) is None and not is_received(run.folder)
    if is_built and Path(base).is_absolute() and Path(base).is_dir():
        # The base that the run built is there: its texts need not be made again, and the server knows its fingerprint.
        return on_base(plan, run_data, SERVED_NAME, base)
    return with_model(plan, run_data, say)


def is_received(folder: Path) -> bool:
    """Return True if a run is from a bundle, its own or that of its study."""
    return any((place / CRATE).exists() for place in (folder, *folder.absolute().parents[:2]))


def _steps(run: Run, manifest: Manifest, wanted: int | None) -> int | None:
    """Return the number of steps to replay; None for a whole, finished run."""
    done = 0 if run.last_step is None else run.last_step + 1
    if done == 0:
        raise DataError(f"{run.folder} has no finished step: there is nothing to compare with")
    if wanted is not None and run.config.steps is not None and wanted < run.config.steps:
        return wanted
    return None if manifest.status == Status.FINISHED.value else done


def changes_of(run: Run, around: Json, steps: int | None, here: Mapping[str, str]) -> dict[str, str]:
    """Return the command-line keys that recreate the run's plan."""
    place = "data_folder" if "data_folder" in around else "task"
    if run.config.name.startswith("python/") or around.get(place, "") is None:
        what = "this run cannot be repeated from its folder: its data were passed in Python"
        fix = "run the same Python code again with another log_path, then `tinsmith diff`"
        raise ConfigError(what, field="DIR", value=str(run.folder), fix=fix)
    if place not in around:
        what = "the manifest of this run does not say where its data and model are"
        fix = "run it again with this version, then it can be replayed"
        raise ConfigError(what, field="DIR", value=str(run.folder), fix=fix)
    # How a judge is asked decides nothing, but its limits are to be kept in a replay too.
    asking = fields(Asking)
    keys = (*(each.name for each in asking), "data", "base_url", "device", "model_name", "unit_hashes")
    where: dict[str, object] = {key: around[key] for key in keys if key in around}
    where |= {key: value for key, value in cast(Json, around.get("files") or {}).items() if value}
    where |= {"stop_after": steps, **here}
    if "model_name" not in here and around["model_name"] is not None and around["base_url"] is None:
        where["model_name"] = found = around["model_folder"]  # in full
        if not is_here(str(found)):
            what = "the run's model is no longer there"
            raise ConfigError(what, field="model_name", value=found, fix="give its path: model_name=PATH")
    for key in ("base_url", "judge_base_url"):
        if where.get(key) and key not in here and is_received(run.folder):
            # A key of whoever checks the run would go wherever somebody else's file says.
            what = "this run used a server whose address comes from the file"
            raise ConfigError(what, field=key, value=where[key], fix=f"if you trust it, give it yourself: {key}=URL")
    if misplaced := sorted(run.config.overrides.keys() & {each.name for each in (*fields(Circumstances), *asking)}):
        what = f"{CONFIG} is not as a run writes it: where it computed stands in {MANIFEST}"
        raise DataError(what, field="overrides", value=misplaced[0])
    return {key: str(value) for key, value in {**run.config.overrides, **where}.items() if value is not None}


def seconds_of(run: Run, steps: int | None) -> float:
    """Return the seconds of a run's first `steps` steps (None: of all)."""
    return sum(row.get("step_s") or 0.0 for row in run.timings if steps is None or (row.get("step") or 0.0) < steps)


BASE: Final = "base"
FINAL: Final = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """A finished run and its server."""

    materials: Materials
    connection: Connection
    paths: Mapping[str, str]  # Places of saved weights, by the step after which it was; the last one's is FINAL too.

    def base(self) -> ServedPolicy:
        """Return the base that the run was trained from."""
        return ServedPolicy.base(self.connection, self.materials.model_name)

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Return its base's tokenizer."""
        for source in self.materials.models.values():
            return tokenizer_of(source)
        return self.base().client.get_tokenizer()

    def policy(self, when: str = FINAL) -> ServedPolicy:
        """Return the policy after a step, after the last one (FINAL), or before the first (BASE)."""
        if when == BASE:
            return self.base()
        if when not in self.paths:
            raise ConfigError(
                "no weights of this run were saved there", field="@", value=when, allowed=[BASE, *self.paths]
            )
        return ServedPolicy.checkpoint(self.connection, self.paths[when])


@contextmanager
def reopened(plan: Plan, folder: Path, say: Say) -> Generator[Reopened, None, None]:
    """Open the run of a plan in a folder; its server ends with the body."""
    manifest = RunFolder(folder).manifest()
    if manifest.status != Status.FINISHED.value or manifest.selected is None:
        raise ConfigError("this folder holds no finished run", field="run", value=str(folder))
    saved = {str(one.step): one.state_path for one in read_run(folder).checkpoints if one.state_path}
    materials = gather(plan, say)
    connection = open_connection(plan.circumstances.base_url, embedded_settings(plan, materials.models, folder), say)
    try:
        yield Reopened(materials=materials, connection=connection, paths={**saved, FINAL: manifest.selected.final_path})
    finally:
        connection.close()


def plan_again(folder: Path, kinds: Sequence[Kind], plan_of: PlanOf) -> Plan:
    """Return the plan of a run of one of these kinds from its folder."""
    run = read_run(folder)
    if run.config.kind not in kinds:
        what = "only runs on a task can be opened again"
        raise ConfigError(what, field="run", value=f"{folder}: {run.config.kind.value}", allowed=", ".join(kinds))
    around = located(RunFolder(folder).manifest(), folder)
    return plan_of(str(around.get("task") or run.config.title), changes_of(run, around, None, {}))
