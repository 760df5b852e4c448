"""Tape of a loss's computation, for reverse-mode derivatives with respect to the log-probabilities.

Contributions to a value's gradient are added in one order, from the last operation to the first; broadcast ones are
summed with one rounding (`sums`). So the gradient's bits depend only on the graph and the datum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.custom_loss.limits import MAX_DATUM_WORK, MAX_REQUEST_WORK, Work, require_shape
from tinsmith.ops.custom_loss.sums import summed_to
from tinsmith.ops.exact import Float64Array
from tinsmith.types.errors import InputError

Values = NDArray[Any]
"""Element types float64, int64 or bool: all floats are float64 and all integers int64, whatever the graph names
them."""
Back = Callable[[Float64Array], Float64Array]
"""Function from the gradient of a result to that of an operand, possibly still broadcast."""


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Tensor of the graph."""

    value: Values
    number: int
    """Index on the tape; -1 if no gradient flows through it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self.value.shape

    @property
    def is_float(self) -> bool:
        """True if it holds real numbers."""
        return self.value.dtype == np.float64


@dataclass(slots=True)
class Tape:
    """Record of the computation of one datum's loss."""

    work: Work
    limit: int = MAX_DATUM_WORK
    """Most elements to read and write."""
    computed: int = 0
    """Elements read and written so far."""
    links: list[tuple[tuple[Array, Back], ...]] = field(default_factory=list[tuple[tuple[Array, Back], ...]])

    def leaf(self, value: Float64Array) -> Array:
        """Record a value whose gradient is needed."""
        return self._add(value, ())

    def constant(self, value: object) -> Array:
        """Return a value without a gradient, from an array or a number.

        Raises:
            InputError: it is too large, or the computation exceeds the limit.
        """
        held = np.asarray(value)
        if held.dtype.kind == "f":
            held = held.astype(np.float64, copy=False)
        elif held.dtype.kind in "iu":
            held = held.astype(np.int64, copy=False)
        self._charge(held.size)
        return Array(held, -1)

    def result(self, value: Values, *links: tuple[Array, Back]) -> Array:
        """Record the result of an operation and its operands.

        Raises:
            InputError: it is too large, or the computation exceeds the limit.
        """
        flowing = tuple(link for link in links if link[0].number >= 0)
        return self._add(value, flowing) if flowing else self.constant(value)

    def room(self, shape: Sequence[int]) -> None:
        """Require room for a result of this shape before it is computed.

        Raises:
            InputError: it is too large, or the computation exceeds the limit.
        """
        require_shape(shape)
        self._require(math.prod(shape))

    def read(self, operands: Iterable[object]) -> None:
        """Count the elements of an operation's operands before it is computed: a broadcast view has many.

        Raises:
            InputError: the computation exceeds the limit.
        """
        self._charge(sum(each.value.size for each in operands if isinstance(each, Array)))

    def gradient(self, of: Array, to: Array) -> Float64Array:
        """Return the derivative of a scalar with respect to a leaf, in the leaf's shape.

        Raises:
            InputError: the computation would exceed the limit.
        """
        grads: dict[int, Float64Array] = {of.number: np.ones(of.shape)}
        for number in range(of.number, to.number, -1):
            grad = grads.pop(number, None)
            if grad is None:
                continue
            for operand, back in self.links[number]:
                self._charge(grad.size + operand.value.size)
                part = summed_to(back(grad), operand.shape)
                before = grads.get(operand.number)
                grads[operand.number] = part if before is None else before + part
        found = grads.get(to.number)
        return np.zeros(to.shape) if found is None else found

    def _add(self, value: Values, links: tuple[tuple[Array, Back], ...]) -> Array:
        held = np.asarray(value)
        self._charge(held.size)
        self.links.append(links)
        return Array(held, len(self.links) - 1)

    def _charge(self, elements: int) -> None:
        self._require(elements)
        self.computed += elements
        self.work.left -= elements

    def _require(self, elements: int) -> None:
        if self.computed + elements > self.limit:
            raise InputError("this loss computes too much", allowed=f"{self.limit} elements read and written in all")
        if self.work.left < elements:
            raise InputError(
                "this loss computes too much",
                allowed=f"{MAX_REQUEST_WORK} elements read and written for all datums of a request",
                fix="send fewer datums a request; gradients add up until optim_step",
            )
