"""Launches on a GPU: NVIDIA's driver through ctypes, on torch's current stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from tinsmith.ops.cuda.device import Gpu, gpu_identity
from tinsmith.ops.cuda.nvrtc import compiler
from tinsmith.ops.cuda.table import Arguments, Kernel
from tinsmith.ops.kernels import Recorded
from tinsmith.types.errors import BackendError


class Backend(Protocol):
    """Device that runs kernels: a GPU, or an emulated grid on a CPU."""

    device: torch.device

    def launch(self, kernel: Kernel, grid: tuple[int, ...], arguments: Arguments) -> None:
        """Run a kernel over a grid of blocks."""
        ...

    def record(self, compute: Callable[[], Tensor]) -> Recorded:
        """Record what `compute` launches: see `Kernels.recorded`."""
        ...

    def identity(self) -> dict[str, str]:
        """Return the device and its compiler, as circumstances: see `gpu_identity`."""
        ...

    def free_bytes(self) -> int | None:
        """Memory that is free there; None: it is the host's."""
        ...


@dataclass(slots=True)
class Driver:
    """One GPU. Programs are compiled and loaded when one of their kernels is first launched."""

    device: torch.device
    gpu: Gpu
    _driver: ctypes.CDLL = field(init=False)
    _context: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    _thread: threading.local = field(default_factory=threading.local)
    """True if it has the context: a server's engine and autograd's backward have threads of their own."""
    _modules: dict[str, ctypes.c_void_p] = field(default_factory=dict[str, ctypes.c_void_p])
    _functions: dict[str, ctypes.c_void_p] = field(default_factory=dict[str, ctypes.c_void_p])

    def __post_init__(self) -> None:
        torch.zeros(1, device=self.device)  # torch's own context is the one that is shared
        self._driver = ctypes.CDLL("libcuda.so.1")
        device = ctypes.c_int()
        self._check(self._driver.cuDeviceGet(ctypes.byref(device), self.device.index or 0))
        self._check(self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device))

    def launch(self, kernel: Kernel, grid: tuple[int, ...], arguments: Arguments) -> None:
        """Launch on torch's current stream; nothing is waited for."""
        if not vars(self._thread):
            self._check(self._driver.cuCtxSetCurrent(self._context))
            self._thread.ready = True
        function = self._functions.get(kernel.name) or self._function(kernel.program, kernel.name)
        x, y, z = (*grid, 1, 1)[:3]
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        stream = ctypes.c_void_p(torch.cuda.current_stream(self.device).cuda_stream)
        self._check(self._driver.cuLaunchKernel(function, x, y, z, kernel.threads, 1, 1, 0, stream, parameters, None))

    def record(self, compute: Callable[[], Tensor]) -> Recorded:
        """Record a CUDA graph, after one run that compiles, loads and uploads whatever is not there yet."""
        current, side = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            compute()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device), torch.cuda.graph(graph):
            out = compute()
        return Recorded(out, graph.replay)

    def identity(self) -> dict[str, str]:
        """Return the GPU, its driver and the compiled kernels, as circumstances."""
        return gpu_identity(self.gpu)

    def free_bytes(self) -> int:
        """Return the bytes that torch can still allocate."""
        return torch.cuda.mem_get_info(self.device)[0]

    def _function(self, program: str, kernel: str) -> ctypes.c_void_p:
        if program not in self._modules:
            image, _ = compiler().cubin(program, self.gpu.arch)
            loaded = ctypes.c_void_p()
            self._check(self._driver.cuModuleLoadData(ctypes.byref(loaded), image))
            self._modules[program] = loaded
        function = ctypes.c_void_p()
        self._check(self._driver.cuModuleGetFunction(ctypes.byref(function), self._modules[program], kernel.encode()))
        self._functions[kernel] = function
        return function

    def _check(self, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise BackendError(f"CUDA: {(text.value or str(code).encode()).decode()}")
