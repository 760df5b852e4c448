"""Choice of the `Kernels` that keep an arithmetic's promise on a device."""

from __future__ import annotations

import torch

from tinsmith.ops.cuda.driver import OLDEST, Driver
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.ops.cuda.nvrtc import compiler
from tinsmith.ops.extension import require
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.stock import StockKernels
from tinsmith.types.arithmetic import Arithmetic, supported, supported_words
from tinsmith.types.errors import BackendError


def select(arithmetic: Arithmetic, device: str = "cpu") -> Kernels:
    """Return the kernels of `arithmetic` on `device` ("cpu", "cuda" or "cuda:N").

    Raises:
        BackendError: no kernels of ours keep that promise there, the device is not there or too old, there is no
            NVRTC, or the compiled extension that `canonical` needs is not built; one line.
    """
    if not supported(arithmetic, device):
        raise BackendError(
            f"arithmetic={arithmetic} is not possible on device={device}: supported are {supported_words()}"
        )
    chosen = torch.device(device)
    if chosen.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (chosen.index or 0) >= found:
            raise BackendError(f"device={device} is not here: torch {torch.__version__} finds {found} GPUs")
        chosen = torch.device("cuda", chosen.index or 0)
    if arithmetic is not Arithmetic.CANONICAL:
        return StockKernels(chosen)
    return NativeKernels() if chosen.type == "cpu" else CudaKernels(_gpu(chosen))


def _gpu(device: torch.device) -> Driver:
    """The driver of a GPU that the canonical kernels run on, once it is known to be new enough."""
    require()
    name, found = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    if found < OLDEST:
        words, least = ".".join(map(str, found)), ".".join(map(str, OLDEST))
        raise BackendError(
            f"device={device} is too old: {name} has compute capability {words}, at least {least} is needed"
        )
    return Driver(device, compiler())
