"""The CUDA kernels as C++ over an emulated grid, compiled by the machine's compiler when first asked for."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tinsmith.ops.cuda.driver import Driver
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.ops.cuda.table import Arguments, Kernel
from tinsmith.ops.kernels import Recorded

NATIVE = Path(__file__).parents[2] / "native"
FLAGS = ("-std=c++17", "-O2", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-shared", "-fPIC", f"-I{NATIVE}")
MACHINE = ("-mavx2", "-mfma") if platform.machine() in ("x86_64", "AMD64") else ()


def compiler() -> str:
    """The machine's C++ compiler."""
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if found is None:
        pytest.skip("no C++ compiler here")
    return found


@cache
def library(*extra: str) -> ctypes.CDLL:
    """The compiled emulation, `extra` flags last; kept in the system's temporary folder by its sources and flags."""
    command = [compiler(), *FLAGS, *MACHINE, *extra]
    digest = hashlib.sha256(repr(command).encode())
    for file in sorted([NATIVE / "canon.h", *(NATIVE / "cuda").iterdir()]):
        digest.update(file.read_bytes())
    built = Path(tempfile.gettempdir()) / f"tinsmith-emulated-{digest.hexdigest()[:24]}.so"
    if not built.exists():
        part = built.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, str(NATIVE / "cuda" / "emulate.cpp"), "-o", str(part)], check=True)
        os.replace(part, built)
    return ctypes.CDLL(str(built))


class Emulation(Driver):
    """A backend whose threads are fibers; `order` 0, 1 or 2 is the order in which they run between two barriers."""

    device = torch.device("cpu")

    def __init__(self, *extra: str, order: int = 2, free: int | None = None) -> None:
        self.free, self.extra, self.order = free, extra, order
        self.launched: set[str] = set()

    def launch(self, kernel: Kernel, grid: tuple[int, ...], arguments: Arguments) -> None:
        self.launched.add(kernel.name)
        grids = library(*self.extra)
        blocks = (ctypes.c_uint * 3)(*grid)
        whole = ctypes.create_string_buffer(bytes(arguments), 512)
        grids.ts_emulate(grids[kernel.name], blocks, kernel.threads, whole, self.order)

    def record(self, compute: Callable[[], Tensor]) -> Recorded:
        """Compute again instead: what a graph reads and writes, without one."""
        out = compute()
        return Recorded(out, lambda: out.copy_(compute()))

    def identity(self) -> dict[str, str]:
        return {"gpu": "emulated"}

    def free_bytes(self) -> int | None:
        return self.free


def emulated(*extra: str, order: int = 2) -> CudaKernels:
    """The canonical kernels for a GPU, computed here."""
    return CudaKernels(Emulation(*extra, order=order))
