"""Runs a run again from what its folder says, and compares the two bit for bit.

The plan is made again from the experiment's name and what was changed of it; papers and model are found where the run
found them. A replay of some steps only stops after them: its settings are those of the whole run.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final, cast

from tinsmith.experiments.conduct import conduct
from tinsmith.experiments.keys import Asking
from tinsmith.experiments.manifest import Json, Prepared, changed_identity
from tinsmith.experiments.materials import gather
from tinsmith.experiments.plan import Plan, make_plan
from tinsmith.experiments.registry import find
from tinsmith.experiments.worlds import Told
from tinsmith.models.sources import is_here
from tinsmith.reports.difference import Comparison, compare_runs
from tinsmith.reports.run_reader import read_run
from tinsmith.reports.run_records import Kind, Run
from tinsmith.training.existing_run import MANIFEST, Status
from tinsmith.training.run_folder import RunFolder
from tinsmith.types.errors import ConfigError, DataError

_PACKAGE: Final = ("tinsmith", "source_sha256")
"""What of an identity says which package ran: with another one a replay is still worth its while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A replay and what it showed."""

    comparison: Comparison
    """The original is the first, the replay the second."""
    folder: Path | None
    """Where the replay is kept; None: it was equal, and no folder was named for it."""
    original_s: float
    """What the compared steps took then."""
    replay_s: float


def replay(folder: Path, *, steps: int | None, out: Path | None, told: Told) -> Replayed:
    """Run `folder`'s run again: `steps` of it, or as far as it came.

    Raises:
        ConfigError: it cannot be run again here: its identity cannot be had.
        DataError: there is no run, no step of it, or its papers are not there any more.
        LostError: the replay lost its server.
    """
    run = read_run(folder)
    manifest = RunFolder(folder).read_json(MANIFEST)
    steps = _steps(run, manifest, steps)
    plan = _plan(run, manifest, steps)
    materials = gather(plan, told)
    _require_identity(Prepared(plan, materials), manifest, told)
    fresh = out or Path(tempfile.mkdtemp(prefix=f"{folder.name}-replay-", dir=folder.parent))
    plan = replace(plan, circumstances=replace(plan.circumstances, log_path=fresh))
    try:
        conduct(plan, told=told, materials=materials, like=manifest)
        found = compare_runs((folder, fresh), steps=steps)
        seconds = [_seconds(each, steps) for each in (run, read_run(fresh))]
    except BaseException:
        if out is None:
            shutil.rmtree(fresh, ignore_errors=True)
        raise
    if out is None and found.equal:
        shutil.rmtree(fresh)
    return Replayed(
        comparison=found,
        folder=fresh if fresh.exists() else None,
        original_s=seconds[0],
        replay_s=seconds[1],
    )


def _steps(run: Run, manifest: Json, asked: int | None) -> int | None:
    """Return how many steps to replay; None: the whole run, which came to its end."""
    done = 0 if run.last_step is None else run.last_step + 1
    if done == 0:
        raise DataError(f"{run.folder} has no finished step: there is nothing to compare with")
    if asked is not None and run.config.steps is not None and asked < run.config.steps:
        return asked
    return None if manifest.get("status") == Status.FINISHED.value else done


def _plan(run: Run, manifest: Json, steps: int | None) -> Plan:
    """Return the run's plan once more, with its data and model where they were."""
    config, around = run.config, cast(Json, manifest.get("circumstances") or {})
    on_rubrics = config.kind is Kind.RLVR
    if config.name.startswith("python/") or around.get("data_folder", "") is None:
        raise ConfigError(
            "this run cannot be made again from its folder: its papers were handed over in Python",
            field="DIR",
            value=str(run.folder),
            fix="run the same Python once more with another log_path, then `tinsmith diff`",
        )
    if ("data_path" if on_rubrics else "data_folder") not in around:
        raise ConfigError(
            "this run's manifest does not say where its data and its model are",
            field="DIR",
            value=str(run.folder),
            fix="run it again with this version, then it can be replayed",
        )
    if on_rubrics:
        # How a judge is asked decides nothing, but its limits are to be kept in a replay too.
        where = {each.name: around.get(each.name) for each in fields(Asking)}
    else:
        where = {"data": around["data"]}
    where |= {"base_url": around["base_url"], "device": around["device"]}
    where |= {"model_name": _model(around), "stop_after": steps}
    given = {key: _text(value) for key, value in {**config.overrides, **where}.items()}
    return make_plan(
        find(config.title), {key: text for key, text in given.items() if text is not None}
    )


def _model(around: Json) -> object:
    """Return what `model_name` has to be: a path in full, a name, or nothing where the base is built here."""
    named, found = around["model_name"], around["model_folder"]
    if named is None or around["base_url"] is not None:
        return named
    if not is_here(str(found)):
        raise ConfigError("the run's model is not there any more", field="model_name", value=found)
    return found


def _text(value: object) -> str | None:
    """Return a value as it stands on a command line."""
    return None if value is None else str(value)


def _require_identity(prepared: Prepared, manifest: Json, told: Told) -> None:
    for each in changed_identity(manifest, prepared):
        if each.name not in _PACKAGE:
            raise ConfigError(
                f"this run cannot be made again here: its {each.name} is another now",
                field=each.name,
                value=each.second,
                allowed=str(each.first),
            )
        told(f"warning: {each.name} was {str(each.first)[:16]}, and is {str(each.second)[:16]} now")


def _seconds(run: Run, steps: int | None) -> float:
    return sum(
        row.get("step_s") or 0.0
        for row in run.timings
        if steps is None or (row.get("step") or 0.0) < steps
    )
