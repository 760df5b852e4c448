"""Loss as a graph of nodes, checked before any computation: every error names the node.

A graph is read, never executed: its operations come from `operations`, its arguments from `encoded`. Nodes read only
earlier nodes, so there are no cycles. Nodes that depend on no input are computed once here, so that their errors are
found when the loss is created.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, cast

from tinsmith.ops.custom_loss.elementwise import Operation
from tinsmith.ops.custom_loss.encoded import Decoder, Ref
from tinsmith.ops.custom_loss.limits import MAX_INPUTS, MAX_NODES, MAX_TEXT
from tinsmith.ops.custom_loss.operations import FUNCTIONS, METHODS, READABLE
from tinsmith.types.errors import InputError, near

_NAME: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_TEXT - 1}}}")
_TARGET: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_.]{{0,{MAX_TEXT - 1}}}")
_INPUT: Final = re.compile(r"[a-z_][a-z0-9_]{0,63}")
_METRIC: Final = re.compile(r"custom/[a-z0-9_./-]{1,64}:(sum|mean)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentNode:
    """Node as recorded by torch.fx and encoded by the SDK."""

    op: str
    name: str
    target: str
    args: Sequence[object]
    kwargs: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LossInput:
    """Input of a loss: the model's log-probabilities, or the datum's input of this name."""

    name: str
    rank: int
    """Number of dimensions: 0 for a number, 1 for (T,), 2 for (T, K)."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """Node that computes a value."""

    place: str
    """Name of the node in error messages."""
    name: str
    operation: Operation
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Checked graph."""

    inputs: tuple[LossInput, ...]
    parameters: Mapping[str, str]
    """Inputs by the names of their nodes."""
    calls: tuple[Call, ...]
    loss: str
    """Node of the loss."""
    metrics: Mapping[str, str]
    """Nodes by the metric's name, which ends in its reduction, `:sum` or `:mean`."""
    output: str
    """Name of the output node in error messages."""


def parse(inputs: Sequence[LossInput], nodes: Sequence[SentNode]) -> Graph:
    """Parse nodes into a graph.

    Raises:
        InputError: naming the node, what is wrong with it, and what is allowed.
    """
    _check_inputs(inputs)
    if len(nodes) > MAX_NODES:
        _refuse("graph.nodes", f"the graph has {len(nodes)} nodes", f"at most {MAX_NODES}")
    decoder, known = Decoder(), set[str]()
    parameters: dict[str, str] = {}
    calls: list[Call] = []
    returned: tuple[str, object] | None = None
    for at, node in enumerate(nodes):
        place = _place(at, node)
        if returned is not None:
            _refuse(place, "a node comes after the output", "the output last")
        if not _NAME.fullmatch(node.name) or node.name in known:
            _refuse(place, "the node's name is no name, or is taken", "letters, digits, _; each once")
        args, kwargs = _arguments(decoder, node, place, known)
        match node.op:
            case "placeholder":
                if len(parameters) >= len(inputs) or node.target != inputs[len(parameters)].name:
                    _refuse(place, "a placeholder is not the next input", "the inputs in order")
                parameters[node.name] = node.target
            case "call_function" | "call_method":
                operation = _operation(node, place, args, kwargs)
                reads = tuple(decoder.refs)
                calls.append(Call(place, node.name, operation, args, kwargs, reads))
            case "output":
                returned = (place, args[0] if len(args) == 1 and not kwargs else None)
            case _:
                _refuse(
                    place,
                    f"nodes of the kind {node.op[:MAX_TEXT]!r} are not computed",
                    "placeholder, call_function, call_method, output",
                )
        known.add(node.name)
    if returned is None or len(parameters) != len(inputs):
        _refuse("graph.nodes", "an input or the output is missing", "a node for each of them")
    return _with_output(tuple(inputs), parameters, tuple(calls), *returned)


def _check_inputs(inputs: Sequence[LossInput]) -> None:
    names = [each.name for each in inputs]
    if not names or names[0] != "logprobs" or len(names) > MAX_INPUTS:
        _refuse("inputs", f"a loss has {len(names)} inputs", f"1 to {MAX_INPUTS}, logprobs first")
    for at, each in enumerate(inputs):
        if not _INPUT.fullmatch(each.name) or names.count(each.name) > 1:
            _refuse(f"inputs[{at}].name", "an input has no name, or one that is taken", "a-z, 0-9, _")
        if each.rank not in ((1, 2) if at == 0 else (0, 1, 2)):
            _refuse(
                f"inputs[{at}].rank",
                f"the input {each.name} cannot have {each.rank} dimensions",
                "0, 1 ([T]) or 2 ([T, K]); logprobs 1 or 2",
            )


def _place(at: int, node: SentNode) -> str:
    name = node.name if _NAME.fullmatch(node.name) else repr(node.name[:40])
    target = node.target if _TARGET.fullmatch(node.target) else repr(node.target[:40])
    return f"graph.nodes[{at}] {name} ({target})"


def _arguments(
    decoder: Decoder, node: SentNode, place: str, known: set[str]
) -> tuple[tuple[object, ...], Mapping[str, object]]:
    decoder.refs.clear()
    try:
        args = tuple(decoder.read(each) for each in node.args)
        kwargs = {str(decoder.read(name)): decoder.read(each) for name, each in node.kwargs.items()}
    except InputError as error:
        raise at(place, error) from None
    for name in decoder.refs:
        if name not in known:
            _refuse(place, f"it reads {name[:40]!r}, which is no node before it", "nodes before it")
    return args, kwargs


def _operation(node: SentNode, place: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Operation:
    table = FUNCTIONS if node.op == "call_function" else METHODS
    kind = "function" if node.op == "call_function" else "method of a tensor"
    operation = table.get(node.target)
    if operation is None:
        like = ", ".join(near(str(node.target), map(str, table)))
        some = f"{len(table)} that are computed bit for bit{f', such as {like}' if like else ''}"
        _refuse(place, f"this {kind} is not among those that a loss may call", some)
    if node.op == "call_method" and not (args and isinstance(args[0], Ref)):
        _refuse(place, "a method is not called on a node", "a node as the first argument")
    signature = inspect.signature(operation)
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError as error:
        taken = [p for p in signature.parameters if p not in ("tape", "_stacklevel")]
        _refuse(place, f"it cannot be called like this: {error}", ", ".join(taken))
    if node.target == "getattr" and args[1] not in READABLE:
        _refuse(place, f"getattr may not read {str(args[1])[:40]!r}", ", ".join(READABLE))
    return operation


def _with_output(
    inputs: tuple[LossInput, ...], parameters: Mapping[str, str], calls: tuple[Call, ...], place: str, returned: object
) -> Graph:
    pair = cast("Sequence[object]", returned) if isinstance(returned, (tuple, list)) else ()
    if len(pair) != 2 or not isinstance(pair[0], Ref) or not isinstance(pair[1], dict):
        _refuse(place, "a loss does not return this", "(loss, metrics), the loss a tensor")
    metrics: dict[str, str] = {}
    for name, value in cast("dict[str, object]", pair[1]).items():
        if not _METRIC.fullmatch(name) or not isinstance(value, Ref):
            _refuse(
                place,
                f"the metric {name[:80]!r} is not named as it must be, or is no tensor",
                "custom/<name>:sum or custom/<name>:mean, in lowercase",
            )
        metrics[name] = value.name
    graph = Graph(inputs, parameters, calls, pair[0].name, metrics, place)
    _require_reached(graph)
    return graph


def _require_reached(graph: Graph) -> None:
    """Reject a loss that does not depend on the model's log-probabilities."""
    reached = {name for name, source in graph.parameters.items() if source == "logprobs"}
    for call in graph.calls:
        if reached.intersection(call.reads):
            reached.add(call.name)
    if graph.loss not in reached:
        _refuse(graph.output, "the loss does not depend on logprobs", "a loss that has a gradient")


def at(place: str, error: InputError) -> InputError:
    """Add the node to an operation's error."""
    return InputError(error.what, field=place, allowed=error.allowed, fix=error.fix)


def _refuse(place: str, what: str, allowed: str) -> NoReturn:
    raise InputError(what, field=place, allowed=allowed)
