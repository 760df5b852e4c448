"""Functions in torch as the SDK sends them, read as custom losses."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tinsmith.ops.custom_loss.graph import LossInput, SentNode
from tinsmith.ops.custom_loss.program import CustomLoss

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tinker.lib.public_interfaces.custom_loss import encode_graph, trace_loss


def sent_nodes(function: Callable[..., Any], ranks: Mapping[str, int]) -> list[SentNode]:
    """The nodes of a function's graph as they arrive."""
    handle = trace_loss(function, dict(ranks), "session")  # pyright: ignore[reportArgumentType]
    return [
        SentNode(op=node.op, name=node.name, target=node.target, args=node.args, kwargs=node.kwargs)
        for node in encode_graph(handle).nodes
    ]


def custom(function: Callable[..., Any], ranks: Mapping[str, int]) -> CustomLoss:
    """The loss that a function is."""
    inputs = [LossInput(name, rank) for name, rank in ranks.items()]
    return CustomLoss.of(function.__name__, inputs, sent_nodes(function, ranks))


def by_torch(
    function: Callable[..., Any], logprobs: np.ndarray, inputs: Mapping[str, np.ndarray]
) -> tuple[float, np.ndarray, dict[str, float]]:
    """Loss, gradient and metrics by torch in float64, `clamp` closed; the inputs in the order of the parameters."""
    leaf = torch.tensor(logprobs.astype(np.float64), requires_grad=True)
    tensors = [torch.tensor(v.astype(np.float64) if v.dtype.kind == "f" else v) for v in inputs.values()]
    with ClosedClamp():
        loss, metrics = function(leaf, *tensors)
    loss.backward()
    return (float(loss.detach()), leaf.grad.numpy(), {name: float(value.detach()) for name, value in metrics.items()})


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
