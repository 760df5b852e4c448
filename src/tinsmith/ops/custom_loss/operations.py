"""Closed list of the operations of a custom loss: torch's functions and methods, Python's operators, math; by name.

Names from a graph are looked up only here; unknown ones are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from tinsmith.ops.custom_loss import arithmetic, creation, elementwise, functions, parts, reductions, shapes
from tinsmith.ops.custom_loss.arguments import refuse, shown, tensor
from tinsmith.ops.custom_loss.elementwise import UNARY, Operation, of_number
from tinsmith.ops.custom_loss.tape import Array, Tape
from tinsmith.ops.exact import exp, log

_BINARY: Mapping[str, Operation] = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "subtract": arithmetic.sub,
    "mul": arithmetic.mul,
    "multiply": arithmetic.mul,
    "div": arithmetic.div,
    "divide": arithmetic.div,
    "true_divide": arithmetic.div,
    "floor_divide": arithmetic.floordiv,
    "pow": arithmetic.power,
    "maximum": arithmetic.maximum,
    "minimum": arithmetic.minimum,
    "eq": arithmetic.compared(lambda a, b: a == b),
    "ne": arithmetic.compared(lambda a, b: a != b),
    "lt": arithmetic.compared(lambda a, b: a < b),
    "le": arithmetic.compared(lambda a, b: a <= b),
    "gt": arithmetic.compared(lambda a, b: a > b),
    "ge": arithmetic.compared(lambda a, b: a >= b),
    "logical_and": arithmetic.connected(lambda a, b: np.logical_and(a, b), strict=False),
    "logical_or": arithmetic.connected(lambda a, b: np.logical_or(a, b), strict=False),
    "logical_xor": arithmetic.connected(lambda a, b: np.logical_xor(a, b), strict=False),
    "bitwise_and": arithmetic.connected(lambda a, b: np.logical_and(a, b), strict=True),
    "bitwise_or": arithmetic.connected(lambda a, b: np.logical_or(a, b), strict=True),
    "bitwise_xor": arithmetic.connected(lambda a, b: np.logical_xor(a, b), strict=True),
}

_BOTH: Mapping[str, Operation] = {
    **UNARY,
    **_BINARY,
    "neg": elementwise.negative,
    "negative": elementwise.negative,
    "positive": elementwise.positive,
    "abs": elementwise.magnitude,
    "absolute": elementwise.magnitude,
    "bitwise_not": elementwise.invert,
    "greater": _BINARY["gt"],
    "greater_equal": _BINARY["ge"],
    "less": _BINARY["lt"],
    "less_equal": _BINARY["le"],
    "not_equal": _BINARY["ne"],
    "clamp": arithmetic.clamp,
    "clip": arithmetic.clamp,
    "clamp_min": arithmetic.clamp_min,
    "clamp_max": arithmetic.clamp_max,
    "masked_fill": arithmetic.masked_fill,
    "sum": reductions.sum_of,
    "mean": reductions.mean,
    "var": reductions.variance,
    "std": reductions.deviation,
    "amax": reductions.amax,
    "amin": reductions.amin,
    "max": reductions.largest,
    "min": reductions.smallest,
    "logsumexp": reductions.logsumexp,
    "softmax": reductions.softmax,
    "log_softmax": reductions.log_softmax,
    "cumsum": reductions.cumsum,
    "any": reductions.any_of,
    "all": reductions.all_of,
    "count_nonzero": reductions.count_nonzero,
    "dot": reductions.dot,
    "reshape": shapes.reshape,
    "flatten": shapes.flatten,
    "ravel": shapes.ravel,
    "unsqueeze": shapes.unsqueeze,
    "squeeze": shapes.squeeze,
    "permute": shapes.permute,
    "transpose": shapes.transpose,
    "swapaxes": shapes.swapaxes,
    "t": shapes.transposed,
    "gather": parts.gather,
    "index_select": parts.index_select,
    "masked_select": parts.masked_select,
    "select": parts.select,
    "narrow": parts.narrow,
    "flip": shapes.flip,
    "roll": shapes.roll,
    "numel": creation.numel,
    "is_floating_point": elementwise.is_floating_point,
}
"""Operations that are both a function of the module torch and a method of a tensor."""

_METHODS: Mapping[str, Operation] = {
    **_BOTH,
    "where": arithmetic.where_method,
    "view": shapes.reshape,
    "reshape_as": shapes.reshape_as,
    "view_as": shapes.reshape_as,
    "expand": shapes.expand,
    "expand_as": shapes.expand_as,
    "repeat": shapes.repeat,
    "contiguous": elementwise.clone,
    "size": creation.size,
    "dim": creation.dimensions,
    "to": creation.to,
    "type_as": creation.type_as,
    "float": creation.as_kind("float32"),
    "double": creation.as_kind("float64"),
    "long": creation.as_kind("int64"),
    "int": creation.as_kind("int32"),
    "bool": creation.as_kind("bool"),
    "new_zeros": creation.new_of_shape(0.0),
    "new_ones": creation.new_of_shape(1.0),
    "new_full": creation.new_full,
    "new_tensor": creation.new_tensor,
}

_TORCH: Mapping[str, Operation] = {
    **_BOTH,
    "where": arithmetic.where,
    "rsub": arithmetic.rsub,
    "cat": shapes.cat,
    "concat": shapes.cat,
    "concatenate": shapes.cat,
    "stack": shapes.stack,
    "zeros": creation.of_shape(0.0),
    "ones": creation.of_shape(1.0),
    "full": creation.full,
    "zeros_like": creation.like(0.0),
    "ones_like": creation.like(1.0),
    "full_like": creation.full_like,
    "arange": creation.arange,
}

_SPECIAL = ("expm1", "log1p", "logsumexp", "softmax", "log_softmax")
_MATH = {"exp": exp, "log": log, "sqrt": np.sqrt, "expm1": functions.expm1, "log1p": functions.log1p}


def _getattr(tape: Tape, input: object, name: object, /) -> object:
    """Read an attribute: x.shape, x.T, (values, indices).values and the like."""
    if isinstance(input, tuple) and name in ("values", "indices"):
        return parts.getitem(tape, input, 0 if name == "values" else 1)
    if not isinstance(input, Array) or name not in READABLE:
        refuse(f"{shown(name)} is not read of {shown(input)}", ", ".join(READABLE))
    if name in creation.ATTRIBUTES:
        return creation.ATTRIBUTES[str(name)](tape, tensor(input))
    return {"T": shapes.transposed, "mT": _matrix, "data": elementwise.detach}[str(name)](tape, input)


def _matrix(tape: Tape, input: object, /) -> Array:
    return shapes.transpose(tape, input, -1, -2)


READABLE: tuple[str, ...] = (*creation.ATTRIBUTES, "T", "mT", "data", "values", "indices")
"""Attributes that getattr may read."""

FUNCTIONS: Mapping[str, Operation] = MappingProxyType(
    {
        **{f"torch.{name}": operation for name, operation in _TORCH.items()},
        **{f"operator.{name}": _BINARY[name] for name in ("add", "sub", "mul", "pow")},
        **{f"operator.{name}": _BINARY[name] for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        **{f"operator.{name}_": _BINARY[f"bitwise_{name}"] for name in ("and", "or")},
        "operator.xor": _BINARY["bitwise_xor"],
        "operator.truediv": arithmetic.div,
        "operator.floordiv": arithmetic.floordiv,
        "operator.neg": elementwise.negative,
        "operator.pos": elementwise.positive,
        "operator.abs": elementwise.magnitude,
        "operator.invert": elementwise.invert,
        "operator.inv": elementwise.invert,
        "operator.getitem": parts.getitem,
        "getattr": _getattr,
        **{f"math.{name}": of_number(function) for name, function in _MATH.items()},
        **{f"torch._C._special.special_{name}": _TORCH[name] for name in _SPECIAL},
        **{f"torch.special.{name}": _TORCH[name] for name in _SPECIAL},
        "torch._C._special.special_expit": UNARY["sigmoid"],
        "torch.special.expit": UNARY["sigmoid"],
        "torch._C._nn.log_sigmoid": UNARY["logsigmoid"],
        "torch.nn.functional.logsigmoid": UNARY["logsigmoid"],
        "torch._C._nn.softplus": elementwise.softplus,
        "torch.nn.functional.softplus": elementwise.softplus,
        "torch.nn.functional.relu": elementwise.relu,
        "torch.nn.functional.silu": elementwise.silu,
        "torch.nn.functional.sigmoid": UNARY["sigmoid"],
        "torch.nn.functional.tanh": UNARY["tanh"],
        "torch.nn.functional.softmax": reductions.softmax,
        "torch.nn.functional.log_softmax": reductions.log_softmax,
        "torch.nn.functional.mse_loss": reductions.mse_loss,
    }
)
"""Operations that a call_function node may name."""

METHODS: Mapping[str, Operation] = MappingProxyType(
    {name: operation for name, operation in _METHODS.items() if name != "logsigmoid"}
)
"""Operations that a call_method node may name."""

UNREAD: frozenset[Operation] = frozenset(
    {_getattr, creation.size, creation.dimensions, creation.numel, elementwise.is_floating_point, elementwise.clone}
)
"""Operations that read no elements of their operands."""
