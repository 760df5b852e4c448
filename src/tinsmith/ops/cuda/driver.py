"""Kernel launches through NVIDIA's driver and ctypes, on torch's current stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import torch
from torch import Tensor

from tinsmith.ops.cuda.device import Gpu, gpu_identity
from tinsmith.ops.cuda.nvrtc import compiler
from tinsmith.ops.cuda.table import Arguments, Kernel
from tinsmith.ops.kernels import Recorded
from tinsmith.types.errors import BackendError


class Driver:
    """GPU, or a test's stand-in. Programs are compiled and loaded when one of their kernels is first launched."""

    def __init__(self, device: torch.device, gpu: Gpu) -> None:
        torch.zeros(1, device=device)  # torch's primary context is shared
        self.device, self.gpu, self._driver = device, gpu, ctypes.CDLL("libcuda.so.1")
        self._thread = threading.local()
        """Mark of threads with the context: a server's engine and autograd's backward run on threads of their own."""
        self._modules, self._functions = dict[str, ctypes.c_void_p](), dict[str, ctypes.c_void_p]()
        self._context, handle = ctypes.c_void_p(), ctypes.c_int()
        self._check(self._driver.cuDeviceGet(ctypes.byref(handle), device.index or 0))
        self._check(self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), handle))

    def launch(self, kernel: Kernel, grid: tuple[int, ...], arguments: Arguments) -> None:
        """Launch on torch's current stream without waiting."""
        if not vars(self._thread):
            self._check(self._driver.cuCtxSetCurrent(self._context))
            self._thread.ready = True
        function = self._functions.get(kernel.name) or self._loaded(kernel)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        stream = ctypes.c_void_p(torch.cuda.current_stream(self.device).cuda_stream)
        self._check(self._driver.cuLaunchKernel(function, *grid, kernel.threads, 1, 1, 0, stream, parameters, None))

    def record(self, compute: Callable[[], Tensor]) -> Recorded:
        """Record a CUDA graph, after one run that compiles, loads and uploads everything missing."""
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
        """Return the GPU, its driver and the compiled kernels, as circumstances of a certificate."""
        return gpu_identity(self.gpu)

    def free_bytes(self) -> int | None:
        """Return the bytes that torch can still allocate; None if the memory is the host's."""
        return torch.cuda.mem_get_info(self.device)[0]

    def _loaded(self, kernel: Kernel) -> ctypes.c_void_p:
        module, function = self._modules.get(kernel.program), ctypes.c_void_p()
        if module is None:
            image, _ = compiler().cubin(kernel.program, self.gpu.arch)
            module = ctypes.c_void_p()
            self._check(self._driver.cuModuleLoadData(ctypes.byref(module), image))
            self._modules[kernel.program] = module
        self._check(self._driver.cuModuleGetFunction(ctypes.byref(function), module, kernel.name.encode()))
        self._functions[kernel.name] = function
        return function

    def _check(self, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise BackendError(f"CUDA: {(text.value or str(code).encode()).decode()}")
