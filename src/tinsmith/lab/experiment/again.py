"""Steps of a run computed again from one of its checkpoints, in this process where its base is all that it needs."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.engine import Engine
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.experiment.conduct import open_run
from tinsmith.lab.experiment.contradictions import is_judged_here
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.manifest import Json, require_same_models, seeds
from tinsmith.lab.experiment.materials import Materials
from tinsmith.lab.run import Run
from tinsmith.lab.runs.folder import Mark, RunFolder
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.local import LocalService
from tinsmith.types.home import certificates_folder


def needs_server(plan: Plan, materials: Materials, manifest: Json) -> bool:
    """Return True if a run asks more of a server than to sample from its own model and to train it."""
    elsewhere = plan.circumstances.base_url is not None
    asks = len(materials.models) > 1 or is_judged_here(manifest) or plan.frame.kind is Kind.TASK_SPARSE
    return elsewhere or asks


def engine_of(plan: Plan, materials: Materials, manifest: Json) -> Engine:
    """Return an engine with a run's base.

    Raises:
        ConfigError: it is another base than the run's, or does not compute as it did there.
    """
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
