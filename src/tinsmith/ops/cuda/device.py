"""GPU as reported by NVIDIA's driver, without torch, so that a run's own process can query it too."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from tinsmith.ops.cuda.nvrtc import PROGRAMS, compiler
from tinsmith.types.errors import BackendError
from tinsmith.types.fingerprints import sha256_of

_MAJOR, _MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""
OLDEST = (7, 5)
"""Oldest supported compute capability: NVRTC 13 compiles for no older one."""


class Gpu(NamedTuple):
    """GPU as its driver reports it."""

    name: str
    capability: tuple[int, int]
    driver: str

    @property
    def arch(self) -> str:
        """Architecture for which its cubins are compiled."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


def find_gpu(index: int) -> Gpu | None:
    """Return a GPU by its number; None if it does not exist, or without a driver."""
    handle, major, minor, version = (ctypes.c_int() for _ in range(4))
    name = ctypes.create_string_buffer(128)
    driver = None
    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
    if driver is None or driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), index):
        return None
    driver.cuDeviceGetName(name, len(name), handle)
    driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, handle)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, handle)
    driver.cuDriverGetVersion(ctypes.byref(version))
    thousands, rest = divmod(version.value, 1000)
    return Gpu(name.value.decode(), (major.value, minor.value), f"{thousands}.{rest // 10}")


def require_gpu(device: str) -> Gpu:
    """Return the GPU for "cuda" or "cuda:N", before anything is built for it.

    Raises:
        BackendError: it is missing or too old, or NVRTC is missing; one line.
    """
    gpu = find_gpu(int(device.partition(":")[2] or 0))
    if gpu is None:
        raise BackendError(f"device={device} is not here: there is no such NVIDIA GPU, or no driver for it")
    if gpu.capability < OLDEST:
        found, least = (".".join(map(str, one)) for one in (gpu.capability, OLDEST))
        raise BackendError(
            f"device={device} is too old: {gpu.name} has compute capability {found}, not {least} or newer"
        )
    compiler()
    return gpu


def gpu_identity(gpu: Gpu) -> dict[str, str]:
    """Return a GPU's name and architecture, the driver's and NVRTC's version, and one sha256 over all cubins.

    Compiles programs that are not cached yet, several at once.
    """
    with ThreadPoolExecutor() as pool:
        cubins = sha256_of([sha256 for _, sha256 in pool.map(compiler().cubin, PROGRAMS, [gpu.arch] * len(PROGRAMS))])
    versions = {"cuda_driver": gpu.driver, "nvrtc": compiler().version}
    return {"gpu": gpu.name, "gpu_arch": gpu.arch, **versions, "cubins_sha256": cubins}
