"""Which GPU it is, as NVIDIA's driver says; without torch, so that a run's own process can tell it too."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tinsmith.ops.cuda.nvrtc import PROGRAMS, Compiler
from tinsmith.types.fingerprints import sha256_of

_MAJOR, _MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""


def device_index(device: str) -> int:
    """Return the number in "cuda:N"; of "cuda" it is 0."""
    return int(device.partition(":")[2] or 0)


def gpu_identity(index: int, compiler: Compiler) -> dict[str, str]:
    """Return a GPU's name and architecture, the driver's and NVRTC's version, and one sha256 over all cubins.

    Compiles what is not kept yet, several programs at once. Nothing where there is no such GPU.
    """
    handle, major, minor, version = (ctypes.c_int() for _ in range(4))
    name = ctypes.create_string_buffer(128)
    driver = None
    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
    if driver is None or driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), index):
        return {}
    driver.cuDeviceGetName(name, len(name), handle)
    driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, handle)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, handle)
    driver.cuDriverGetVersion(ctypes.byref(version))
    arch = f"sm_{major.value}{minor.value}"
    with ThreadPoolExecutor() as pool:
        cubins = [sha256 for _, sha256 in pool.map(compiler.cubin, PROGRAMS, [arch] * len(PROGRAMS))]
    return {
        "gpu": name.value.decode(),
        "gpu_arch": arch,
        "cuda_driver": f"{version.value // 1000}.{version.value % 1000 // 10}",
        "nvrtc": compiler.version,
        "cubins_sha256": sha256_of(cubins),
    }
