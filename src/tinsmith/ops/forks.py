"""Turn-level advantages of two-turn conversations, estimated from several second turns per first turn.

From one prompt g1 first turns are drawn, and after each (and the reply to it) g2 second turns. Axes: `_F` the first
turns of one prompt, `_K` the forks of one of them. Arithmetic as in ops/advantages.py: float64, no dependence on order,
exact zeros if there is nothing to compare.

The gradient of the expected reward is that of both turns,

    sum_F 1/g1 (A1 grad log pi(first) + sum_K 1/g2 A2 grad log pi(second)),

so if a loss adds up whole conversations including the first turn, each of the g2 copies of a first turn gets A1, and no
weight is needed; if a first turn is trained on once, it needs the weight g2.

A baseline that contains the sample itself scales the expected gradient of its turn by (g - 1) / g without changing its
direction; with RLOO it is unbiased. Source: a value from forks of one prefix, as VinePPO's (arXiv:2410.01679).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinsmith.ops.advantages import ADVANTAGES, Advantage
from tinsmith.ops.exact import Float64Array, mean
from tinsmith.types.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class TurnAdvantages:
    """`first_F`: one per first turn. `second_FK`: one per fork of each; rows may differ in length."""

    first_F: Float64Array
    second_FK: tuple[Float64Array, ...]


def turn_advantages(
    returns_FK: Sequence[Float64Array] | Float64Array, rule: Advantage = Advantage.CENTER
) -> TurnAdvantages:
    """Return A2 = R - mean over the forks of the same first turn, A1 = that mean - mean over first turns.

    Args:
        returns_FK: the return of every conversation, (g1, g2); or rows of different lengths if forks failed. The caller
            leaves out first turns whose forks all failed.
        rule: rule for a group's advantages; CENTER subtracts the mean, RLOO that of the others.

    Returns:
        A1 of shape (g1,) and a row of A2 for each. A group of one gets 0.

    Raises:
        InputError: there is no row, an empty row, or a return that is not finite.

    >>> found = turn_advantages(np.array([[1.0, 0.0], [1.0, 1.0]]))
    >>> found.first_F.tolist(), found.second_FK[0].tolist()
    ([-0.25, 0.25], [0.5, -0.5])
    """
    rows = [np.asarray(row, dtype=np.float64) for row in returns_FK]
    if not rows or any(row.ndim != 1 or row.size == 0 for row in rows):
        raise InputError(
            "turn-level advantages take one row of returns a first turn",
            field="returns.shape",
            value=[row.shape for row in rows],
            allowed="(g1, g2), both at least 1",
            fix="leave a first turn without a finished conversation out",
        )
    second = tuple(_compare(row, rule) for row in rows)
    means = np.array([_mean(row) for row in rows])
    return TurnAdvantages(first_F=_compare(means, rule), second_FK=second)


def _compare(values: Float64Array, rule: Advantage) -> Float64Array:
    if values.size == 1:
        # Checked first: a non-finite return must not pass as "nothing to compare".
        return ADVANTAGES[Advantage.CENTER](values)
    return ADVANTAGES[rule](values)


def _mean(row: Float64Array) -> float:
    """Return the mean; for equal returns that return itself, so that equal first turns compare as equal."""
    return float(row[0]) if bool((row == row[0]).all()) else mean(row)
