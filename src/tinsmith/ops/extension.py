"""Loads the compiled extension, and applies TINSMITH_ISA and TINSMITH_THREADS to it."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from tinsmith.types.arithmetic import Isa
from tinsmith.types.errors import BackendError, ConfigError

try:
    from tinsmith import _native as native
except ImportError as error:
    raise BackendError(
        f"the compiled extension tinsmith._native is missing ({error}): install a C++17 compiler and run 'pip install .'"
    ) from None


def physical_cores() -> int:
    """Physical cores this process may use: its CPU affinity with hyper-threads counted once, at least 1."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores: set[tuple[str, str]] = set()
    for cpu in cpus:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            package = (topology / "physical_package_id").read_text().strip()
            cores.add((package, (topology / "core_id").read_text().strip()))
        except OSError:
            cores.add((str(cpu), str(cpu)))
    return max(1, len(cores))


def configure(threads: int | None = None, isa: Isa | None = None) -> None:
    """Set the instruction set and the number of threads of the native kernels; neither changes a bit.

    Arguments win over TINSMITH_ISA and TINSMITH_THREADS, which win over the defaults (the fastest set this CPU has;
    the physical cores this process may use).

    Raises:
        ConfigError: for a value that is not possible here.
    """
    supported: list[str] = native.supported_isas()
    name = isa.value if isa is not None else os.environ.get("TINSMITH_ISA") or supported[-1]
    if name not in supported:
        raise ConfigError(f"TINSMITH_ISA={name!r} is not possible here: allowed are {', '.join(supported)}")
    native.use_isa(name)
    text = str(threads) if threads is not None else os.environ.get("TINSMITH_THREADS") or str(physical_cores())
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise ConfigError(f"TINSMITH_THREADS={text!r} is not possible: allowed are 1 to 1024")
    native.set_num_threads(int(text))


def module() -> ModuleType:
    """The extension itself, for what has no torch in it."""
    return native


configure()
