"""Choice of the `Kernels` that keep an arithmetic's promise on a device."""

from __future__ import annotations

import torch

from tinsmith.ops.cuda.device import require_gpu
from tinsmith.ops.cuda.driver import Driver
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.ops.extension import require
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.stock import StockKernels
from tinsmith.types.arithmetic import Arithmetic, supported, supported_words
from tinsmith.types.errors import BackendError


def select(arithmetic: Arithmetic, device: str = "cpu") -> Kernels:
    """Return the kernels of `arithmetic` on `device` ("cpu", "cuda" or "cuda:N").

    Raises:
        BackendError: no kernels keep that promise there, the device is missing or too old, NVRTC is missing, or the
            compiled extension that `canonical` needs is not built; one line.
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
    if chosen.type == "cpu":
        return NativeKernels()
    require()
    return CudaKernels(Driver(chosen, require_gpu(str(chosen))))
