"""Compiled extension: its presence, and its settings from TINSMITH_ISA and TINSMITH_THREADS.

Importing this file needs no extension, so that `arithmetic=fast` runs without a compiler; `require`
comes before the first use of `native`.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from tinsmith.types.arithmetic import Isa
from tinsmith.types.errors import BackendError, ConfigError

_why_missing = ""
try:
    from tinsmith import _native as native
except ImportError as error:
    native = None  # pyright: ignore[reportAssignmentType]  # `require` raises then
    _why_missing = str(error)

_configured = False


def require() -> None:
    """Require the native kernels, and configure them from the environment unless already configured.

    Raises:
        BackendError: the extension is not built; one line.
        ConfigError: TINSMITH_ISA or TINSMITH_THREADS is invalid here.
    """
    if not _configured:
        configure()


def configure(threads: int | None = None, isa: Isa | None = None) -> None:
    """Set the instruction set and the number of threads of the kernels; neither changes a bit.

    Arguments win over TINSMITH_ISA and TINSMITH_THREADS, which win over the defaults (the fastest
    set this CPU has; the physical cores this process may use).

    Raises:
        BackendError: the extension is not built; one line.
        ConfigError: a value that is invalid here.
    """
    global _configured
    if native is None:
        raise BackendError(
            f"the compiled extension tinsmith._native is missing ({_why_missing}): "
            "install a C++17 compiler and run 'pip install .', or choose arithmetic=fast"
        )
    supported = native.supported_isas()
    name = isa.value if isa is not None else os.environ.get("TINSMITH_ISA") or supported[-1]
    if name not in supported:
        allowed = supported
        raise ConfigError(f"TINSMITH_ISA={name!r} is not possible here: allowed are {allowed}")
    if threads is not None:
        text = str(threads)
    else:
        text = os.environ.get("TINSMITH_THREADS") or str(physical_cores())
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise ConfigError(f"TINSMITH_THREADS={text!r} is not possible: allowed are 1 to 1024")
    native.use_isa(name)
    native.set_num_threads(int(text))
    _configured = True


def physical_cores() -> int:
    """Return the number of physical cores this process may use: its CPU affinity, without hyper-threads."""
    if hasattr(os, "sched_getaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
    else:
        cpus = range(os.cpu_count() or 1)
    cores: set[tuple[str, str]] = set()
    for cpu in cpus:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            package = (topology / "physical_package_id").read_text().strip()
            cores.add((package, (topology / "core_id").read_text().strip()))
        except OSError:
            cores.add((str(cpu), str(cpu)))
    return max(1, len(cores))


def module() -> ModuleType:
    """Return the extension itself, ready for use, for code without torch."""
    require()
    assert native is not None
    return native
