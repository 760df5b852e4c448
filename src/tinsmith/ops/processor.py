"""Model and flags of the CPU, as reported by the system: a library may choose its instructions by them."""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

_ARITHMETIC: Final = ("sse", "ssse", "avx", "fma", "f16c", "amx", "asimd", "fp", "sve", "bf16")
"""Prefixes of the CPU flags that may affect a library's choice of instructions."""

_VARYING: Final = ("processor", "cpu MHz", "core id", "apicid", "initial apicid", "bogomips")
"""Fields that differ between the cores of one machine, or from moment to moment."""


def cpu_model() -> str:
    """Return the CPU's name; empty if the system does not report it."""
    return _lines().get("model name") or _lines().get("machdep.cpu.brand_string") or platform.processor()


def cpu_flags() -> tuple[str, ...]:
    """Return the CPU's flags about arithmetic, sorted."""
    flags = (_lines().get("flags") or _lines().get("Features") or "").split()
    return tuple(sorted({flag for flag in flags if flag.startswith(_ARITHMETIC)}))


def cpu_identity() -> tuple[str, ...]:
    """Return everything that distinguishes this kind of processor: model, stepping, microcode, every flag.

    Empty if the system does not report it.
    """
    entries = (
        f"{name}={text}"
        for name, text in _lines().items()
        if not name.lower().startswith(tuple(each.lower() for each in _VARYING))
    )
    return (platform.machine(), platform.system(), *sorted(entries)) if _lines() else ()


@cache
def _lines() -> dict[str, str]:
    """Return the system's fields for the first processor, by name; empty if there are none."""
    try:
        if sys.platform == "darwin":
            text = subprocess.check_output(["/usr/sbin/sysctl", "machdep.cpu", "hw.optional"], text=True)
        else:
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except (OSError, subprocess.CalledProcessError):
        return {}
    first = text.strip().split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}
