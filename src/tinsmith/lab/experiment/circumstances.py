"""Where and on what a run ran: machine, threads, library versions, paths. Nothing here may decide a result.

It is told so that, where two runs differ all the same, one can see what was different around them.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.materials import Materials
from tinsmith.ops.cuda.device import device_index, gpu_identity
from tinsmith.ops.cuda.nvrtc import compiler
from tinsmith.ops.extension import native, physical_cores
from tinsmith.ops.processor import cpu_flags, cpu_model
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import BackendError, DataError
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.source import PACKAGE

HERE: Final = "./"
"""What a path begins with that is relative to the run's folder, as in the manifest of a bundle."""
LIBRARIES: Final = ("torch", "numpy", "transformers", "tokenizers", "tinker")


def circumstances(plan: Plan, materials: Materials) -> dict[str, object]:
    """Return what `manifest.json` tells of them; what a server elsewhere computes with is not known."""
    where, here = plan.circumstances, plan.circumstances.base_url is None
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu": cpu_model(),
        "cpu_flags": list(cpu_flags()),
        "device": where.device,
        "threads": _threads(where.threads) if here else None,
        "micro_batch": where.micro_batch if here else None,
        "hold": where.hold.value if here else None,
        "workers": where.workers if here else None,
        "shards": where.shards if here else None,
        "isa": _isa() if here else None,
        "extension_sha256": _extension_sha256(),
        **(_gpu(where.device, plan.arithmetic) if here else {}),
        "python": platform.python_version(),
        **{name: library_version(name) for name in LIBRARIES},
        "base_url": where.base_url,
        "model_name": where.model_name,
        "model_folder": _absolute(materials.models.get(materials.model_name)),
        **materials.run_data.circumstances(),
        "package": str(PACKAGE),
        "log_path": _absolute(where.log_path),
    }


def _absolute(path: Path | str | None) -> str | None:
    """Return a whole path, so that it can be found from another folder; a name that is no path as it is."""
    if path is None or (isinstance(path, str) and not Path(path).exists()):
        return path
    return str(Path(path).absolute())


def _threads(asked: int) -> int:
    told = os.environ.get("TINSMITH_THREADS", "")
    return asked or (int(told) if told.isdecimal() else physical_cores())


def _isa() -> str | None:
    return os.environ.get("TINSMITH_ISA") or (None if native is None else native.supported_isas()[-1])


def _gpu(device: str, arithmetic: Arithmetic) -> dict[str, str]:
    """Return GPU, driver, compiler and cubins of a run on one; nothing where it is not here, which its server says."""
    if device == "cpu" or arithmetic is not Arithmetic.CANONICAL:
        return {}
    with suppress(BackendError):
        return gpu_identity(device_index(device), compiler())
    return {}


def _extension_sha256() -> str | None:
    file = None if native is None else native.__file__
    return None if file is None else file_sha256(Path(file))


def library_version(name: str) -> str | None:
    """Return the installed version of a distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def located(manifest: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Return a manifest's circumstances; paths that are relative to the run's folder in full."""

    def full(value: object) -> object:
        if isinstance(value, Mapping):
            return {name: full(each) for name, each in cast(Mapping[str, object], value).items()}
        if not isinstance(value, str) or not value.startswith(HERE):
            return value
        if ".." in Path(value).parts:
            raise DataError("a path in this manifest leaves the run's folder", field="circumstances", value=value)
        return str(folder.absolute() / value)

    around = cast(Mapping[str, object], manifest.get("circumstances") or {})
    return {name: full(value) for name, value in around.items()}
