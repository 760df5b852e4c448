"""Custom loss of one datum, computed with its gradient in float64 and rounded to float32 once.

Torch's semantics, but for types: float32 and float64 are both float64, all whole numbers are int64. float16 and
bfloat16 are not supported, as a loss in float64 would not round as they do. No code of a graph is executed: each node
is a call of one of our operations. The same graph and datum give the same bits on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from tinsmith.ops.custom_loss.arguments import shown
from tinsmith.ops.custom_loss.encoded import Ref, Slice
from tinsmith.ops.custom_loss.graph import Call, Graph, LossInput, SentNode, at, parse
from tinsmith.ops.custom_loss.limits import MAX_CONSTANT_WORK, MAX_TEXT, Work
from tinsmith.ops.custom_loss.operations import UNREAD
from tinsmith.ops.custom_loss.tape import Array, Tape
from tinsmith.ops.exact import fsum
from tinsmith.ops.objectives.loss_formulas import LossInputs, LossValue
from tinsmith.ops.objectives.loss_inputs import require_finite
from tinsmith.types.datum import FloatArray
from tinsmith.types.errors import InputError

IMPOSSIBLE: Final = (ArithmeticError, IndexError, MemoryError, TypeError, ValueError)
"""Exceptions of numpy for arguments that our checks let through."""


@dataclass(frozen=True, slots=True, eq=False)
class CustomLoss:
    """Loss that a user sent: a function of a datum's log-probabilities and inputs, summed over datums."""

    name: str
    graph: Graph
    nodes: tuple[SentNode, ...]
    """Nodes as sent, from which a copy in another process is built."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the nodes as sent: the graph is made of functions, which are local to a process."""
        return CustomLoss.of, (self.name, self.graph.inputs, self.nodes)

    @classmethod
    def of(cls, name: str, inputs: Sequence[LossInput], nodes: Sequence[SentNode]) -> CustomLoss:
        """Parse and check a graph; nodes that depend on no input are computed.

        Raises:
            InputError: naming the node.
        """
        if not 0 < len(name) <= MAX_TEXT or not name.isprintable():
            raise InputError("a loss needs a name", field="name", allowed=f"1 to {MAX_TEXT} printable characters")
        graph = parse(inputs, nodes)
        _compute_constants(graph)
        return cls(name, graph, tuple(nodes))

    def objective(self) -> CustomObjective:
        """Return the loss for one request."""
        return CustomObjective(self.name, self.graph)


@dataclass(frozen=True, slots=True, eq=False)
class CustomObjective:
    """Custom loss in one request, whose datums share a limit on computation."""

    name: str
    graph: Graph
    work: Work = field(default_factory=Work)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Number of dimensions that a datum's targets may have: those declared for logprobs."""
        return (self.graph.inputs[0].rank,)

    def check(self, inputs: LossInputs, shape: tuple[int, ...], field: str) -> None:
        """Reject a datum with a missing parameter of the loss, or one of another rank or not finite.

        Other inputs are ignored: a loss reads only its parameters.
        """
        for declared in self.graph.inputs[1:]:
            if declared.name not in inputs:
                raise InputError(
                    f"the loss {self.name!r} needs this input",
                    field=f"{field}.{declared.name}",
                    allowed=[one.name for one in self.graph.inputs[1:]],
                )
            values = inputs[declared.name]
            if declared.rank == 0 and values.size == 1:
                allowed = None
            elif declared.rank == 2 and len(shape) == 1:
                allowed = f"({shape[0]}, K)" if values.shape[:1] != shape or values.ndim != 2 else None
            else:
                expected = shape[: declared.rank]
                allowed = str(expected) if values.shape != expected else None
            if allowed is not None:
                raise InputError(
                    f"the loss {self.name!r} declared this input with rank {declared.rank}",
                    field=f"{field}.{declared.name}",
                    value=values.shape,
                    allowed=allowed,
                )
            require_finite(values, f"{field}.{declared.name}")

    def value(self, logprobs: FloatArray, inputs: LossInputs) -> LossValue:
        """Return value, gradient and metrics of one datum.

        Raises:
            InputError: naming the node that cannot be computed.
        """
        with np.errstate(all="ignore"):
            return self._value(logprobs, inputs)

    def metrics(self, values: Sequence[LossValue]) -> dict[str, float]:
        """Return the sum of the loss, and the sum or mean over datums of every metric."""
        found = {"loss:sum": fsum(np.array([value.total for value in values]))}
        for name in self.graph.metrics:
            total = fsum(np.array([value.metrics[name] for value in values]))
            found[name] = total / len(values) if name.endswith(":mean") else total
        return found

    def _value(self, logprobs: FloatArray, inputs: LossInputs) -> LossValue:
        graph, tape = self.graph, Tape(self.work)
        results = self._parameters(tape, logprobs, inputs)
        leaf = cast("Array", next(iter(results.values())))
        for call in graph.calls:
            results[call.name] = _computed(tape, call, results)
        loss = self._scalar(results[graph.loss], "the loss")
        if loss.number < 0 or not loss.is_float:
            raise InputError(
                "the loss does not depend on logprobs",
                field=graph.output,
                allowed="a loss that has a gradient",
                fix="look for detach, and for comparisons and counts",
            )
        metrics = {
            name: float(self._scalar(results[node], f"the metric {name}").value[()])
            for name, node in graph.metrics.items()
        }
        try:
            grad = tape.gradient(loss, leaf) + 0.0  # -0.0 + 0.0 is +0.0
        except InputError as error:
            raise at(f"{graph.output}, its gradient", error) from None
        except IMPOSSIBLE as error:
            raise InputError(f"the gradient cannot be computed: {error}", field=graph.output) from None
        return LossValue(total=float(loss.value[()]) + 0.0, grad=grad.astype(np.float32), metrics=metrics)

    def _parameters(self, tape: Tape, logprobs: FloatArray, inputs: LossInputs) -> dict[str, object]:
        """Return the values of the placeholders by node, logprobs first."""
        values: dict[str, object] = {}
        for (name, source), each in zip(self.graph.parameters.items(), self.graph.inputs, strict=True):
            try:
                if not values:
                    values[name] = tape.leaf(logprobs.astype(np.float64))
                else:
                    held = inputs[source]
                    values[name] = tape.constant(held.reshape(()) if each.rank == 0 else held)
            except InputError as error:
                raise at(f"graph.nodes {name} ({source})", error) from None
        return values

    def _scalar(self, value: object, what: str) -> Array:
        if not isinstance(value, Array) or value.shape:
            raise InputError(
                f"{what} is {shown(value)}",
                field=self.graph.output,
                allowed="a tensor without dimensions, such as x.sum()",
            )
        return value


def _computed(tape: Tape, call: Call, found: Mapping[str, object]) -> object:
    try:
        if call.operation not in UNREAD:
            tape.read(found[name] for name in call.reads)
        return call.operation(
            tape,
            *(_resolved(each, found) for each in call.args),
            **{name: _resolved(each, found) for name, each in call.kwargs.items()},
        )
    except InputError as error:
        raise at(call.place, error) from None
    except IMPOSSIBLE as error:
        raise InputError(f"this cannot be computed: {error}", field=call.place) from None


def _resolved(argument: object, results: Mapping[str, object]) -> object:
    """Replace nodes' names in an argument by their results."""
    match argument:
        case Ref():
            return results[argument.name]
        case Slice():
            return Slice(*(_resolved(e, results) for e in (argument.start, argument.stop, argument.step)))
        case tuple() | list():
            members = [_resolved(each, results) for each in cast("Sequence[object]", argument)]
            return tuple(members) if isinstance(argument, tuple) else members
        case dict():
            return {k: _resolved(v, results) for k, v in cast("dict[str, object]", argument).items()}
        case _:
            return argument


def _compute_constants(graph: Graph) -> None:
    """Compute the nodes that depend on no input; reject invalid ones, and NaN."""
    tape, found = Tape(Work(), MAX_CONSTANT_WORK), dict[str, object]()
    with np.errstate(all="ignore"):
        for call in graph.calls:
            if not all(name in found for name in call.reads):
                continue
            value = _computed(tape, call, found)
            found[call.name] = value
            held: Any = value.value if isinstance(value, Array) else value
            if isinstance(held, (float, np.ndarray)) and bool(np.isnan(held).any()):
                raise InputError("this is NaN whatever the datum", field=call.place, allowed="numbers")
