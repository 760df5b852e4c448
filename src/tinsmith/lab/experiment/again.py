"""A run's record held against itself, and its steps computed again from one of its checkpoints."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from tinsmith.engine.checkpoint_files import ADAPTER, read
from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.engine import Engine
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.difference.rollouts import Timeline, decode, timeline
from tinsmith.lab.experiment.conduct import open_run
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.key_text import Circumstances
from tinsmith.lab.experiment.manifest import Json, require_same_models, seeds
from tinsmith.lab.experiment.materials import SERVED_NAME, Materials, is_loaded_here
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import MANIFEST, METRICS, STATE, TRACE, Kind
from tinsmith.lab.runs.folder import Mark, RunFolder, damage
from tinsmith.lab.runs.records import Run as RunRecord
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.local import LocalService
from tinsmith.types.errors import DataError
from tinsmith.types.home import certificates_folder
from tinsmith.types.sketches import digest

_GRADIENT = "optim/grad_norm"
"""The metric of a step that changed the weights; one whose rewards were all equal changes none."""


def trained_steps(run: RunRecord) -> int:
    """Return how many steps of training a run came to."""
    done = 0 if run.last_step is None else run.last_step + 1
    if run.config.steps is not None:
        done = min(done, run.config.steps)  # after them stands the test
    if done == 0:
        raise DataError(f"{run.folder} has no finished step: there is nothing to check")
    return done


def contradictions(folder: Path, manifest: Json, marks: list[Mark], done: int) -> Iterator[str]:
    """Say where the folder contradicts itself: its files and the manifest, its steps, its checkpoints and the trace."""
    stated = cast(Json, manifest.get("hashes") or {})
    for name, found in RunFolder(folder).hashes().items():
        if stated and stated.get(name) != found:
            yield f"{name.removesuffix('_sha256')}.jsonl is not the file that the manifest names"
    if "trace_sha256" in stated and not (folder / TRACE).exists():
        yield f"{TRACE} is missing"
    links, now = cast(list[str], manifest.get("trace_links") or []), RunFolder(folder).links(TRACE)
    if links and links != now:
        line = 1 + next((at for at, pair in enumerate(zip(links, now, strict=False)) if pair[0] != pair[1]), len(now))
        yield f"{TRACE}: line {line} is the first that is not the one of the chain in the manifest"
    elif links and not str(stated.get("trace_sha256", "")).startswith(links[-1]):
        yield f"{MANIFEST}: the chain of {TRACE} does not end in its SHA-256"
    trace, metrics = timeline(folder / TRACE, None), timeline(folder / METRICS, None)
    for step in range(done):
        if step not in metrics:
            yield f"{METRICS} has no line of step {step}"
        elif trace and step not in trace and _GRADIENT in decode(metrics[step][-1]):
            yield f"{TRACE} has no line of step {step}"
    paths = {mark.state_path: mark.step for mark in marks}
    selected = cast(Json, manifest.get("selected") or {})
    if isinstance(final := selected.get("final_path"), str):
        paths[final] = done
    for path, step in paths.items():
        yield from _unlike_trace(folder / STATE, path, step, trace)


def _unlike_trace(state: Path, path: str, step: int, trace: Timeline) -> Iterator[str]:
    """Say what is wrong with a checkpoint: damaged, or a tensor that is not the trace's of the step before."""
    if (what := damage(state, [path])) is not None:
        yield what
        return
    if " " in path:
        return  # adapters of several agents, each of which has lines of its own
    last = max((each for each in trace if each < step), default=None)
    marks = cast(Mapping[str, Any], {} if last is None else decode(trace[last][-1]).get("weights"))
    tensors = read(TinkerPath.parse(path).folder(state)).tensors(ADAPTER) if marks else {}
    for name in sorted(tensors):
        flat = tensors[name].contiguous().numpy().ravel() + np.float32(0)
        if name in marks and marks[name]["sha256"] != digest(flat):
            yield f"{path}: {name} is not what the trace has after step {last}"
            return


def judge_elsewhere(manifest: Json, *, or_served: bool = False) -> str | None:
    """Return the judge that a run asked over the network, whose verdicts are taken from the record; None: none.

    With `or_served` also one that the run's own server had as the model that it trained.
    """
    identity, around = (cast(Json, manifest.get(part) or {}) for part in ("identity", "circumstances"))
    named = cast(Json, identity.get("frame") or {}).get("judge_model")
    if named in (None, RULES):
        return None
    if named in (SERVED_NAME, around.get("model_name")):
        return str(named) if or_served else None
    own = not around.get("judge_base_url") and (around.get("base_url") or is_loaded_here(str(named), Circumstances()))
    return None if own else str(named)


def is_judged_here(manifest: Json) -> bool:
    """Return True if a model judges that a run's own server has."""
    named = cast(Json, cast(Json, manifest.get("identity") or {}).get("frame") or {}).get("judge_model")
    return named not in (None, RULES) and judge_elsewhere(manifest) is None


def cpu_seconds() -> float:
    """Return the processor time of this process and of those that it started and that ended."""
    return sum(os.times()[:4])


def needs_server(plan: Plan, materials: Materials, manifest: Json) -> bool:
    """Return True if a run asks more of a server than to sample from its own model and to train it."""
    elsewhere = plan.circumstances.base_url is not None
    asks = len(materials.models) > 1 or is_judged_here(manifest) or plan.frame.kind is Kind.TASK_SPARSE
    return elsewhere or asks


def engine_of(plan: Plan, materials: Materials, manifest: Json) -> Engine:
    """Return an engine with a run's base."""
    name = materials.model_name
    engine = Engine(
        {name: materials.models[name]},
        arithmetic=plan.arithmetic,
        device=plan.circumstances.device,
        seed=seeds(plan)["server"],
        deviation=plan.deviation,
        gradient_unit=plan.gradient_unit,
        hold=plan.circumstances.hold,
        kept=CertificateStore(certificates_folder()),
    )
    identity = cast(Json, manifest.get("identity") or {})
    recorded = cast(Json, identity.get("model") or {})
    found = {"fingerprint": engine.base(name).fingerprint, "certificate": engine.certificate_sha256(name)}
    now = {key: found.get(key, value) for key, value in recorded.items()}
    require_same_models(manifest, {**manifest, "identity": {**identity, "model": now}})
    return engine


@contextmanager
def begun(
    plan: Plan, materials: Materials, mark: Mark | None, folder: Path, client: LocalService | Connection
) -> Generator[Run[Any, Any], None, None]:
    """Give a run where it stands at a checkpoint (None: at its beginning), which goes on in another folder."""
    here = isinstance(client, LocalService)
    connection = Connection(cast(Any, client), None, None) if here else client
    again = replace(plan, circumstances=replace(plan.circumstances, log_path=folder, quiet=True))
    run = open_run(again, materials, RunFolder(folder), mark, connection)
    if here:
        run.connection = None  # the training clients have the trace
    try:
        yield run
    finally:
        run.teller.close()
        run.course.subject.close()
        run.folder.close()


def lent(mark: Mark, kept: Path, state: Path) -> Mark:
    """Copy a checkpoint into a server's state, under a name that no session of the server gets; return it there."""
    old = [TinkerPath.parse(path) for path in mark.state_path.split()]
    new = [replace(one, session=f"recorded-{one.session}") for one in old]
    for before, after in zip(old, new, strict=True):
        shutil.copytree(before.folder(kept), after.folder(state), dirs_exist_ok=True)
    return replace(mark, state_path=" ".join(map(str, new)))
