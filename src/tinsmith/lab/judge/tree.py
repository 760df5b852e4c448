"""Trees of criteria, gate-then-average: what a tree is, and its score with a trace of every node.

A branch with a critical child below 1 scores 0; where all its critical children pass it scores the
mean of its soft ones, or 1 if it has none. In a sequential branch, everything after the first child
below 1 is skipped and counts 0. Scores are exact fractions until the end, so that order and
rounding change nothing, and a flat tree of soft leaves is the pass rate exactly.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from tinsmith.types.errors import InputError


class Strategy(enum.StrEnum):
    """How a branch goes through its children."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A criterion that holds or does not."""

    criterion: str
    critical: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Nodes that are judged together. The children of a critical branch are critical."""

    name: str
    children: tuple[Node, ...]
    strategy: Strategy = Strategy.PARALLEL
    critical: bool = False


Node: TypeAlias = Leaf | Branch


class NodeState(enum.StrEnum):
    """What became of a node."""

    PASSED = "passed"
    PARTIAL = "partial"
    FAILED = "failed"
    GATED = "gated"  # a critical child stands below 1
    SKIPPED = "skipped"  # an earlier child of a sequential branch stands below 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTrace:
    """One node's score; `path` holds the places of children from the root on, which is ()."""

    path: tuple[int, ...]
    label: str
    state: NodeState
    score: float
    """Its own score; what its parent made of it stands at the parent. 0 where it was skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeScore:
    """A tree's score in [0, 1], and every node's, parents before children."""

    score: float
    trace: tuple[NodeTrace, ...]


def criteria_of(tree: Node) -> tuple[str, ...]:
    """Return the criteria of a tree's leaves, in order: the verdicts stand in the same order."""
    if isinstance(tree, Leaf):
        return (tree.criterion,)
    return tuple(criterion for child in tree.children for criterion in criteria_of(child))


def flat_tree(criteria: Sequence[str]) -> Branch:
    """Return the tree whose score is the pass rate: soft leaves side by side."""
    if not criteria:
        raise InputError("a tree needs a criterion", field="criteria", value=criteria)
    return Branch(name="", children=tuple(Leaf(criterion=one) for one in criteria))


def pass_rate(verdicts: Sequence[bool]) -> float:
    """Return the share of verdicts that hold."""
    if not verdicts:
        raise InputError("a pass rate needs a verdict", field="verdicts", value=verdicts)
    return sum(map(bool, verdicts)) / len(verdicts)


def weighted_rate(verdicts: Sequence[bool], weights: Sequence[float]) -> float:
    """Return the weights of the verdicts that hold over the sum of the positive weights, clipped to [0, 1].

    A negative weight is a penalty. With equal weights this is the pass rate, bit for bit: the sums are exact.
    Source: HealthBench, arXiv:2505.08775, which clips the mean over its examples; here each response is clipped.

    >>> weighted_rate([True, True, False], [5, -2, 1])
    0.5
    """
    best = sum((Fraction(weight) for weight in weights if weight > 0), Fraction(0))
    if len(verdicts) != len(weights) or not best:
        raise InputError("one weight a verdict, and one of them above 0", field="weights", value=list(weights))
    earned = sum((Fraction(weight) for weight, held in zip(weights, verdicts, strict=True) if held), Fraction(0))
    return float(min(max(earned / best, Fraction(0)), Fraction(1)))


def evaluate(tree: Node, verdicts: Sequence[bool]) -> TreeScore:
    """Return a tree's score for one verdict a leaf, in the order of `criteria_of`.

    >>> evaluate(flat_tree(["a", "b", "c"]), [True, False, True]).score == 2 / 3
    True
    """
    leaves = len(criteria_of(tree))
    if len(verdicts) != leaves:
        raise InputError("one verdict a leaf", field="verdicts", value=len(verdicts), allowed=str(leaves))
    walk = _Walk([bool(one) for one in verdicts])
    score = walk.visit(tree, (), skipped=False)
    return TreeScore(score=float(score), trace=tuple(walk.trace))


class _Walk:
    """Goes through a tree once, taking a verdict at each leaf, skipped ones too."""

    def __init__(self, verdicts: Sequence[bool]) -> None:
        self._verdicts = iter(verdicts)
        self.trace: list[NodeTrace] = []

    def visit(self, node: Node, path: tuple[int, ...], *, skipped: bool) -> Fraction:
        place = len(self.trace)
        label = node.criterion if isinstance(node, Leaf) else node.name
        self.trace.append(
            NodeTrace(path=path, label=label, state=NodeState.SKIPPED, score=0.0)
        )  # parents stand before children; replaced below, once the score is known
        if isinstance(node, Leaf):
            score, gated = Fraction(next(self._verdicts)), False
        else:
            score, gated = self._branch(node, path, skipped=skipped)
        if skipped:
            return Fraction(0)
        state = NodeState.GATED if gated else _state(score)
        self.trace[place] = NodeTrace(path=path, label=label, state=state, score=float(score))
        return score

    def _branch(self, node: Branch, path: tuple[int, ...], *, skipped: bool) -> tuple[Fraction, bool]:
        scores: list[Fraction] = []
        stopped = skipped
        for i, child in enumerate(node.children):
            scores.append(self.visit(child, (*path, i), skipped=stopped))
            stopped = stopped or (node.strategy is Strategy.SEQUENTIAL and scores[-1] < 1)
        pairs = list(zip(node.children, scores, strict=True))
        if any(child.critical and score < 1 for child, score in pairs):
            return Fraction(0), True
        soft = [score for child, score in pairs if not child.critical]
        return (sum(soft, Fraction(0)) / len(soft) if soft else Fraction(1)), False


def _state(score: Fraction) -> NodeState:
    if score == 1:
        return NodeState.PASSED
    return NodeState.PARTIAL if score > 0 else NodeState.FAILED
