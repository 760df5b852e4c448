"""torch's `clamp` with slope 1 at its bounds, in every version: from 2.14 on torch has 0 there, or halves."""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_BOUNDS = {"clamp": ("min", "max"), "clip": ("min", "max"), "clamp_min": ("min",), "clamp_max": ("max",)}


def clamped(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """x in [low, high]: its slope is 1 on the closed interval, and a bound's is 1 where x lies beyond it."""
    x = x if low is None else torch.where(x < low, low, x)
    return x if high is None else torch.where(x > high, high, x)


class ClosedClamp(TorchFunctionMode):
    """Within it torch's code has `clamped` for each of its names."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (names := _BOUNDS.get(func.__name__)) is None:
            return func(*args, **(kwargs or {}))
        bounds = {**dict(zip(names, args[1:], strict=False)), **(kwargs or {})}
        return clamped(args[0], bounds.get("min"), bounds.get("max"))
