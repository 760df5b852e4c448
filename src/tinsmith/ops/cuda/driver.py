"""Launches on a GPU: NVIDIA's driver through ctypes, on torch's current stream."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Protocol

import torch

from tinsmith.ops.cuda.arguments import Arguments
from tinsmith.ops.cuda.nvrtc import Compiler

OLDEST = (7, 0)
"""Oldest compute capability: older ones lack what the kernels' shared memory and NVRTC need."""


class Backend(Protocol):
    """Where kernels run: a GPU, or an emulated grid on a CPU."""

    device: torch.device

    def launch(self, program: str, kernel: str, grid: tuple[int, ...], threads: int, arguments: Arguments) -> None:
        """Run one kernel of a program over a grid of blocks."""
        ...

    def identity(self) -> dict[str, str]:
        """Where it computes, as circumstances: GPU, driver, compiler, sha256 of each cubin used so far."""
        ...


class CudaError(RuntimeError):
    """A failed call of the driver."""


@dataclass(slots=True)
class Driver:
    """One GPU. Programs are compiled and loaded when one of their kernels is first launched."""

    device: torch.device
    compiler: Compiler

    def __post_init__(self) -> None:
        torch.zeros(1, device=self.device)  # makes the context
        self._driver = ctypes.CDLL("libcuda.so.1")
        major, minor = torch.cuda.get_device_capability(self.device)
        self._arch = f"sm_{major}{minor}"
        self._modules: dict[str, ctypes.c_void_p] = {}
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._sha256: dict[str, str] = {}

    def launch(self, program: str, kernel: str, grid: tuple[int, ...], threads: int, arguments: Arguments) -> None:
        """Launch on torch's current stream; nothing is waited for."""
        function = self._functions.get(kernel) or self._function(program, kernel)
        x, y, z = (*grid, 1, 1)[:3]
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        stream = ctypes.c_void_p(torch.cuda.current_stream(self.device).cuda_stream)
        self._check(self._driver.cuLaunchKernel(function, x, y, z, threads, 1, 1, 0, stream, parameters, None))

    def load(self, program: str) -> None:
        """Compile and load a program before its first launch, which a graph that is being captured must not do."""
        if program not in self._modules:
            image, self._sha256[program] = self.compiler.cubin(program, self._arch)
            self._modules[program] = ctypes.c_void_p()
            with torch.cuda.device(self.device):
                self._check(self._driver.cuModuleLoadData(ctypes.byref(self._modules[program]), image))

    def identity(self) -> dict[str, str]:
        """What it computes on and with."""
        version = ctypes.c_int()
        self._driver.cuDriverGetVersion(ctypes.byref(version))
        return {
            "gpu": torch.cuda.get_device_name(self.device),
            "gpu_arch": self._arch,
            "cuda_driver": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "nvrtc": self.compiler.version,
            **{f"cubin_{program}": sha256 for program, sha256 in sorted(self._sha256.items())},
        }

    def _function(self, program: str, kernel: str) -> ctypes.c_void_p:
        self.load(program)
        function = ctypes.c_void_p()
        self._check(
            self._driver.cuModuleGetFunction(ctypes.byref(function), self._modules[program], kernel.encode())
        )
        self._functions[kernel] = function
        return function

    def _check(self, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise CudaError((text.value or str(code).encode()).decode())
