"""Record of a run: its identity, which decides its results, and separately its circumstances.

The same identity gives the same results. What is known of it before a server is asked names the run, by its SHA-256.
The model's part is what the server tells, and a run goes on only on the same one. The hash of the package's source
stands there as well, but does not name the run: who mends a word between two sittings can go on, and `diff` says so.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, cast

from tinsmith.lab.difference.rollouts import FieldDifference, unequal_fields
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.materials import Materials
from tinsmith.lab.rollouts import SEED_BITS
from tinsmith.lab.runs.files import Status
from tinsmith.lab.runs.records import Manifest
from tinsmith.lab.settings import identity_settings, written
from tinsmith.models.base import open_base
from tinsmith.models.published.sources import is_here
from tinsmith.ops.cuda.device import gpu_identity, require_gpu
from tinsmith.ops.extension import native, physical_cores
from tinsmith.ops.processor import cpu_flags, cpu_model
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import BackendError, ConfigError, DataError
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.source import PACKAGE, source_sha256
from tinsmith.types.version import VERSION

Json = Mapping[str, object]

_TRAINED = "model"
_OF_SERVER: Final = (_TRAINED, "beside")  # What of an identity only a server knows.
UNHASHED: Final = (*_OF_SERVER, "source_sha256")
"""Fields that stand in a manifest's identity and not in the one that is hashed."""


def identity_of(materials: Materials) -> dict[str, object]:
    """Return a run's identity without its models, which only the server knows.

    A folder stands here by the name that it is served by: where it lies does not matter.
    """
    plan, run_data = materials.plan, materials.run_data
    served = {folder: name for name, folder in run_data.models().items()}
    return {
        "tinsmith": VERSION,
        "experiment": plan.experiment.full_name,
        "frame": {key: served.get(v, v) if isinstance(v, str) else v for key, v in plan.named.items()},
        "settings": identity_settings(plan.settings),
        "reward_settings": dict(plan.reward_settings),
        "arithmetic": plan.engine.arithmetic.value,
        "deviation": plan.engine.deviation.value,
        # A server elsewhere has its own, which stands beside the model that it serves.
        "gradient_unit": None if plan.circumstances.base_url is not None else plan.engine.gradient_unit.value,
        "seeds": {"run": plan.settings.seed, **seeds(plan)},
        **run_data.identity(),
    }


def config_of(materials: Materials) -> dict[str, object]:
    """Return the content of `config.json`."""
    plan, experiment = materials.plan, materials.plan.experiment
    return {
        "schema": 1,
        "name": experiment.name,
        "version": experiment.version,
        "title": plan.title,
        "question": experiment.question,
        "parent": None if experiment.parent is None else experiment.parent.name,
        "delta": dict(experiment.delta),
        "overrides": dict(plan.overrides),
        "identity_sha256": sha256_of(identity_of(materials)),
        "kind": plan.frame.kind.value,
        "at": plan.frame.at.value,
        "settings": written(plan.settings),
        "model_name": materials.model_name,
        **materials.run_data.config(),
    }


def manifest_of(materials: Materials, model: Json | None, beside: Mapping[str, Json | None]) -> dict[str, object]:
    """Return the content of `manifest.json` during a run.

    `model` is what the server tells of the one that is trained, `beside` what of others from folders.
    """
    identity = identity_of(materials)
    models = {"source_sha256": source_sha256(), _TRAINED: model, "beside": dict(beside)}
    return {
        "schema": 2,
        "status": Status.RUNNING.value,
        "identity_sha256": sha256_of(identity),
        "identity": {**identity, **models},
        "circumstances": circumstances(materials),
    }


def seeds(plan: Plan) -> dict[str, int]:
    """Return the seeds that a server gets, which follow from the run's own."""
    root = plan.settings.seed
    return {name: derive(root, name) % 2**SEED_BITS for name in ("adapter", "server")}


def changed_identity(before: Manifest, materials: Materials) -> tuple[FieldDifference, ...]:
    """Return the fields of an earlier manifest's identity that differ now, except for the models."""
    # Through JSON, as the manifest went: enums as their values, tuples as lists.
    now: Json = json.loads(json.dumps({**identity_of(materials), "source_sha256": source_sha256()}))
    return unequal_fields({name: one for name, one in before.identity.items() if name not in _OF_SERVER}, now)


def require_same_run(before: Manifest, materials: Materials) -> None:
    """Refuse to resume a run of another identity; an empty manifest is accepted."""
    found = changed_identity(before, materials) if before != Manifest() else ()
    changed = [field for field in found if field.name != "source_sha256"]
    if changed:
        what = f"this folder holds another run: its {changed[0].name} differs"
        fix = "name another folder, or behavior_if_log_dir_exists=delete"
        raise ConfigError(what, field=changed[0].name, value=changed[0].second, allowed=str(changed[0].first), fix=fix)


def require_same_models(before: Manifest, now: Manifest) -> None:
    """Refuse to resume with other models than an earlier manifest's; unnamed models are accepted.

    Certificates are of what a process holds, and are compared where both spread a base over equally many.
    """
    first, second = (_models(manifest) for manifest in (before, now))
    shards = {one.circumstances.get("shards") or 1 for one in (before, now)}
    apart = {"certificate"} if len(shards) > 1 else set[str]()
    for who in sorted({*first} & {*second}):
        one, other = first[who] or {}, second[who] or {}
        names = sorted({*one, *other} - apart, key=lambda name: (name != "fingerprint", name))
        changed = [name for name in names if one.get(name) != other.get(name)]
        if one and other and changed:
            what = f"the {who} is not the one the run began with: its {changed[0]} differs"
            fix = "use the one that it began with, or begin a new run in another folder"
            field, expected = "model_name" if who == _TRAINED else who, str(one.get(changed[0]))
            raise ConfigError(what, field=field, value=other.get(changed[0]), allowed=expected, fix=fix)


def _models(manifest: Manifest) -> Mapping[str, Json | None]:
    beside = cast(Mapping[str, Json | None], manifest.identity.get("beside") or {})
    return {_TRAINED: manifest.model, **beside}


def require_same_base(manifest: Manifest, materials: Materials) -> None:
    """Refuse a run that was trained on other weights than those in the folder that is named now.

    What another server serves is not known here before it is asked, and passes.
    """
    trained = manifest.model.get("fingerprint")
    named = materials.models.get(materials.model_name)
    if trained is None or named is None or not is_here(named):
        return
    if _fingerprint(_whole_path(named)) != trained:
        what = "the run in this folder was trained on another base model"
        fix = "use the model that it was trained on, or another folder for the results"
        raise ConfigError(what, field="model_name", value=named, fix=fix)


@lru_cache
def _fingerprint(name: str) -> str:
    return open_base(name).identity.fingerprint


HERE: Final = "./"  # The beginning of a path that is relative to the run's folder, as in the manifest of a bundle.
LIBRARIES: Final = ("torch", "numpy", "transformers", "tokenizers", "tinker")


def circumstances(materials: Materials) -> dict[str, object]:
    """Return the models' entry in `manifest.json`; the arithmetic of a remote server is unknown."""
    where, here = materials.plan.circumstances, materials.plan.circumstances.base_url is None
    threads, gpu = os.environ.get("TINSMITH_THREADS", ""), dict[str, str]()
    server = {
        "threads": where.threads or (int(threads) if threads.isdecimal() else physical_cores()),
        "micro_batch": where.micro_batch,
        "hold": where.hold.value,
        "workers": where.workers,
        "shards": where.shards,
        "isa": os.environ.get("TINSMITH_ISA") or (None if native is None else native.supported_isas()[-1]),
    }
    extension = None if native is None else native.__file__
    if here and where.device != "cpu" and materials.plan.engine.arithmetic is Arithmetic.CANONICAL:
        with suppress(BackendError):  # it is not here, which its server says
            gpu = gpu_identity(require_gpu(where.device))
    folder = materials.models.get(materials.model_name)
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu": cpu_model(),
        "cpu_flags": list(cpu_flags()),
        "device": where.device,
        **{name: value if here else None for name, value in server.items()},
        "extension_sha256": None if extension is None else file_sha256(Path(extension)),
        **gpu,
        "python": platform.python_version(),
        **{name: library_version(name) for name in LIBRARIES},
        **({"unit_hashes": True} if where.unit_hashes else {}),
        "base_url": where.base_url,
        "model_name": where.model_name,
        "model_folder": None if folder is None else _whole_path(folder),
        **materials.run_data.circumstances(),
        "package": str(PACKAGE),
        "log_path": None if where.log_path is None else str(where.log_path.absolute()),
    }


def _whole_path(name: str) -> str:
    """Return an absolute path, valid from another folder; a name that is no path unchanged."""
    return str(Path(name).absolute()) if Path(name).exists() else name


def library_version(name: str) -> str | None:
    """Return the installed version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def located(manifest: Manifest, folder: Path) -> dict[str, object]:
    """Return a manifest's circumstances; paths that are relative to the run's folder in full."""

    def full(value: object) -> object:
        if isinstance(value, Mapping):
            return {name: full(each) for name, each in cast(Mapping[str, object], value).items()}
        if not isinstance(value, str) or not value.startswith(HERE):
            return value
        if ".." in Path(value).parts:
            raise DataError("a path in this manifest leaves the run's folder", field="circumstances", value=value)
        return str(folder.absolute() / value)

    return {name: full(value) for name, value in manifest.circumstances.items()}
