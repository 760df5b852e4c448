"""Objectives of the rewards that react: from the confusion so far to the task term of each answer.

A reward that looks at one answer at a time is maximised by one best label per paper, and may never
say a label at all. These look at what was said so far: a label that is hardly said gains in worth.
y is the truth, k the answer, K the number of labels, R_y the share of papers of label y, P_k the
share of answers k, C_yk their joint share, pi_y the label's prior, all from the confusion's moving
average (see ShareTable). Source: rows of confusion-based objectives as in Narasimhan et al., ICML
2015, and Cotter et al., JMLR 2019; logit adjustment: Menon et al., arXiv:2007.07314.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from typing import Final

from tinsmith.lab.user_task.step_reward import LARGEST_REWARD
from tinsmith.types.errors import ConfigError

Matrix = list[list[float]]  # [K][K]: task term of answer k (inner) about a paper of label y (outer).
Cells = tuple[tuple[float, ...], ...]
Shares = tuple[float, ...]  # One per label.
_RIGHT: Final = 1.6
_WRONG: Final = -0.6  # The spread of the strong table: +1.0 and -0.6.
_PRECISE: Final = Context(prec=30)


@dataclass(frozen=True, slots=True)
class ShareTable:
    """A confusion as shares of all answers: K rows of K + 1, rows the truth, columns the predictions, the last invalid.

    All sums are exact (math.fsum), so that their bits depend on no order and no version of Python.
    """

    cells: Cells
    prior: Shares = ()  # pi, the share of papers of each label.
    duals: Shares = ()  # Those of an objective that has them, before this batch.

    def truth(self, y: int) -> float:
        """Return the share of papers of label y."""
        return math.fsum(self.cells[y])

    def answered(self, k: int) -> float:
        """Return the share of answers with label k."""
        return math.fsum(row[k] for row in self.cells)

    def answered_if_valid(self, k: int) -> float | None:
        """Return the share of valid answers with label k; None if no answer is valid."""
        valid = math.fsum(share for row in self.cells for share in row[:-1])
        return self.answered(k) / valid if valid > 0.0 else None

    def recall(self, y: int) -> float | None:
        """Return the share of papers of label y that are recognised; None without such papers."""
        papers = self.truth(y)
        return self.cells[y][y] / papers if papers > 0.0 else None

    def f1(self, k: int) -> float:
        """Return the F1 of label k, with invalid answers counted as wrong; 0 if k does not occur."""
        both = self.truth(k) + self.answered(k)
        return 2.0 * self.cells[k][k] / both if both > 0.0 else 0.0

    def macro_f1(self) -> float:
        """Return the mean F1 of all labels."""
        return math.fsum(map(self.f1, range(len(self.cells)))) / len(self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Base class of objectives: their fields are settings, all of them finite numbers."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not abs(value) <= LARGEST_REWARD:
                raise ConfigError("a finite number", field=field.name, value=value, allowed=f"up to {LARGEST_REWARD:g}")
            if field.name == "floor" and value <= 0.0:
                raise ConfigError("a floor must be above zero", field="floor", value=value)

    def task_terms(self, shares: ShareTable) -> Matrix:
        """Return the task term of every answer about every label."""
        raise NotImplementedError

    def first_duals(self, size: int) -> Shares:
        """Return the initial duals: none, or one per label."""
        del size
        return ()

    def next_duals(self, shares: ShareTable) -> Shares:
        """Return the duals after a batch, from the confusion with it and the previous duals."""
        return shares.duals


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroF1Influence(Objective):
    """scale * (2 [y=k] - F_k) / (2 max(R_k + P_k, floor)), clipped: the slope of the macro-F1.

    With K = 3 and a scale of 1, an answer right or wrong earns +1.2 or -0.3 where all labels have
    F1 0.4, and +3 where its label was never said. Up to the factor K / 2 it is the derivative of the
    macro-F1 by C_yk, without a part that depends on y only and so falls out of a group's baseline.
    """

    scale: float = 1.0
    low: float = -1.0
    high: float = 3.0
    floor: float = 0.05

    def __post_init__(self) -> None:
        Objective.__post_init__(self)
        if self.low > self.high:
            raise ConfigError("the lower clip is above the upper one", field="low", value=self.low)

    def task_terms(self, shares: ShareTable) -> Matrix:
        """Return clipped slopes."""
        labels = range(len(shares.cells))
        half = [0.5 * self.scale / max(shares.truth(k) + shares.answered(k), self.floor) for k in labels]
        f1 = [shares.f1(k) for k in labels]
        return [[min(max(half[k] * (2.0 * (y == k) - f1[k]), self.low), self.high) for k in labels] for y in labels]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorMatching(Objective):
    """1.6 [y=k] - 0.6 - strength * log(max(q_k, floor) / pi_k), q_k the share of k in valid answers.

    The descent on accuracy minus strength * KL(q || pi): what is said too often loses.
    """

    strength: float = 1.0
    floor: float = 1e-3

    def task_terms(self, shares: ShareTable) -> Matrix:
        """Return accuracy less each label's excess."""
        offsets: list[float] = []
        for k, expected in enumerate(shares.prior):
            observed = shares.answered_if_valid(k)
            share = expected if observed is None else max(observed, self.floor)
            # ln(x) rounded from 30 digits: `math.log` has other last bits on other machines.
            offsets.append(self.strength * float(_PRECISE.ln(Decimal(share / expected))))
        accuracy = diagonal([_RIGHT + _WRONG] * len(offsets), _WRONG)
        return [[one - offset for one, offset in zip(row, offsets, strict=True)] for row in accuracy]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinRecallDual(Objective):
    """1.6 [y=k] (1 + dual_y / (K pi_y)) - 0.6, with duals that grow while a recall is below tau.

    dual_y <- clip(dual_y + rate * (tau - recall_y), 0, ceiling), once a step.
    """

    tau: float = 0.30
    rate: float = 0.02
    ceiling: float = 5.0

    def task_terms(self, shares: ShareTable) -> Matrix:
        """Return accuracy weighted by the duals."""
        size, pairs = len(shares.cells), zip(shares.duals, shares.prior, strict=True)
        return diagonal([_RIGHT * (1.0 + dual / (size * expected)) + _WRONG for dual, expected in pairs], _WRONG)

    def first_duals(self, size: int) -> Shares:
        """Return zeros: plain accuracy."""
        return (0.0,) * size

    def next_duals(self, shares: ShareTable) -> Shares:
        """Update the duals; a label without papers so far keeps its dual."""
        recalls = [shares.recall(y) for y in range(len(shares.duals))]
        steps = [0.0 if recall is None else self.rate * (self.tau - recall) for recall in recalls]
        return tuple(min(max(dual + step, 0.0), self.ceiling) for dual, step in zip(shares.duals, steps, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class GMeanInfluence(Objective):
    """1.6 / K [y=k] / max(recall_y, floor) / (K pi_y): the slope of the mean log recall.

    At most 8.9 for three balanced labels. A wrong answer earns 0.
    """

    floor: float = 0.06

    def task_terms(self, shares: ShareTable) -> Matrix:
        """Return slopes on the diagonal."""
        size = len(shares.cells)
        least = [max(shares.recall(y) or 0.0, self.floor) for y in range(size)]
        return diagonal([_RIGHT / size / least[y] / (size * shares.prior[y]) for y in range(size)])


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseShare(Objective):
    """[y=k] / (K max(q_k, floor)), q_k the share of k in valid answers; a wrong answer earns 0.

    A game with a fixed point (argmax of p_k / q_k), not the gradient of one objective.
    """

    floor: float = 0.1

    def task_terms(self, shares: ShareTable) -> Matrix:
        """Return inverse shares on the diagonal."""
        size = len(shares.cells)
        observed = [shares.answered_if_valid(k) for k in range(size)]
        return diagonal([1.0 / (size * max(1.0 / size if q is None else q, self.floor)) for q in observed])


def diagonal(right: Sequence[float], wrong: float = 0.0) -> Matrix:
    """Return the terms of right answers by label, with that of all wrong ones."""
    return [[one if y == k else wrong for k in range(len(right))] for y, one in enumerate(right)]
