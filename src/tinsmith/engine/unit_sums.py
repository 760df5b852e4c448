"""Gradient of a session since its last step: a sum over units that does not depend on who computed which.

Units are numbered in order of arrival, over all requests since the step, and added by a fixed binary tree over that
number: 2i and 2i + 1 first, then the pairs. Any aligned block of 2^k units is a node of the tree, so it may be computed
at once, or unit by unit, here or elsewhere. (The kernels add the units of a block in the same order:
native/tree_sum.hpp.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tinsmith.ops.cuda.lists import complete
from tinsmith.ops.functions import Weight


@dataclass(slots=True, eq=False)
class Partial:
    """Gradient of a node of the tree, one tensor per buffer."""

    first: int
    """Number of its first unit."""
    grads: list[Tensor]
    committed: bool = False
    """True if a finished request includes it: it is never changed then, so that a failed request can be undone."""


@dataclass(slots=True, eq=False)
class UnitSums:
    """Partial sums of the tree, at most one per level."""

    weights: Sequence[Weight]
    """Weights with a gradient buffer, which holds the gradient of the current micro-batch."""
    count: int = 0
    """Number of units so far."""
    partials: list[Partial] = field(default_factory=list[Partial])
    _total: list[Tensor] | None = None

    def fresh(self) -> None:
        """Give every weight an empty buffer for the next micro-batch, discarding the last one."""
        for weight in self.weights:
            weight.train()

    def taken(self, first: int) -> Partial:
        """Take the gradient in the buffers: that of the units from number `first` on."""
        grads: list[Tensor] = []
        for weight in self.weights:
            assert weight.grad is not None
            grads.append(weight.grad)
        return Partial(first, grads)

    def commit(self, partials: list[Partial], count: int) -> None:
        """Accept the sums of a request of `count` units."""
        for partial in partials:
            partial.committed = True
        self.partials, self.count, self._total = partials, self.count + count, None

    def total(self) -> list[Tensor]:
        """Return the whole sum, one tensor per buffer; zeros if there is no unit."""
        if self._total is None:
            self._total = folded(self.partials) or [torch.zeros_like(weight.value) for weight in self.weights]
        return self._total

    def clear(self) -> None:
        """Discard all units."""
        self.count, self.partials, self._total = 0, [], None
        self.fresh()


def joined(partials: Sequence[Partial], block: Partial) -> list[Partial]:
    """Append a block to partial sums, adding up nodes that it completes."""
    left = list(partials)
    while len(left) > 1 and complete(left[-2].first, left[-1].first, block.first):
        later = left.pop()
        left[-1] = _sum(left[-1], later)
    return [*left, block]


def folded(partials: Sequence[Partial]) -> list[Tensor]:
    """Return the sum of partial sums, last ones first; empty for none."""
    left = list(partials)
    while len(left) > 1:
        later = left.pop()
        left[-1] = _sum(left[-1], later)
    return left[0].grads if left else []


def _sum(one: Partial, later: Partial) -> Partial:
    """Add two partial sums, in place unless one is committed: a partial of all weights is as large as the model."""
    pairs = zip(one.grads, later.grads, strict=True)
    if one.committed:
        return Partial(one.first, [a + b for a, b in pairs])
    for a, b in pairs:
        a += b
    return one
