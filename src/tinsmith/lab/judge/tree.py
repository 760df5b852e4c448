"""Trees of criteria, gate-then-average, and their scores.

A branch with a critical child below 1 scores 0; where all its critical children pass it scores the
mean of its soft ones, or 1 if it has none. In a sequential branch, everything after the first child
below 1 is skipped and counts 0. Scores are exact fractions until the end, so that order and
rounding change nothing, and a flat tree of soft leaves is the pass rate exactly.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar, cast, get_origin

from tinsmith.types.errors import DataError, InputError


class Strategy(enum.StrEnum):
    """A branch's way through its children."""

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


def criteria_of(tree: Node) -> tuple[str, ...]:
    """Return the criteria of a tree's leaves, in order: the verdicts stand in the same order."""
    if isinstance(tree, Leaf):
        return (tree.criterion,)
    return tuple(criterion for child in tree.children for criterion in criteria_of(child))


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


def evaluate(tree: Node, verdicts: Sequence[bool]) -> float:
    """Return a tree's score in [0, 1] for one verdict a leaf, in the order of `criteria_of`.

    >>> leaves = tuple(Leaf(criterion=one) for one in "abc")
    >>> evaluate(Branch(name="", children=leaves), [True, False, True]) == 2 / 3
    True
    """
    leaves = len(criteria_of(tree))
    if len(verdicts) != leaves:
        raise InputError("one verdict a leaf", field="verdicts", value=len(verdicts), allowed=str(leaves))
    return float(_score(tree, iter(verdicts), skipped=False))


def _score(node: Node, verdicts: Iterator[bool], *, skipped: bool) -> Fraction:
    """Go through a tree once, taking a verdict at each leaf, skipped ones too."""
    if isinstance(node, Leaf):
        held = Fraction(bool(next(verdicts)))
        return Fraction(0) if skipped else held
    scores: list[Fraction] = []
    stopped = skipped
    for child in node.children:
        scores.append(_score(child, verdicts, skipped=stopped))
        stopped = stopped or (node.strategy is Strategy.SEQUENTIAL and scores[-1] < 1)
    pairs = list(zip(node.children, scores, strict=True))
    if skipped or any(child.critical and score < 1 for child, score in pairs):
        return Fraction(0)
    soft = [score for child, score in pairs if not child.critical]
    return sum(soft, Fraction(0)) / len(soft) if soft else Fraction(1)


T = TypeVar("T")
MAX_DEPTH: Final = 32  # Levels of a tree, the root included.

_BRANCH_KEYS: Final = ("name", "strategy", "critical", "children")


def tree_of(value: object) -> Node:
    """Return the tree that a JSON value describes.

    >>> tree_of({"children": [{"criterion": "is short", "critical": True}]}).children[0].critical
    True
    """
    return _node(value, "rubric_tree", 1)


def _node(value: object, where: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise DataError(f"a tree has at most {MAX_DEPTH} levels", field=where)
    parts = typed_value(value, dict[str, object], "a node is an object", where)
    known = ("criterion", "critical") if "criterion" in parts else _BRANCH_KEYS
    for key in parts:
        if key not in known:
            raise DataError(f"unknown key {key!r}", field=where, allowed=known)
    critical = typed_value(parts.get("critical", False), bool, "true or false", f"{where}.critical")
    if "criterion" in parts:
        criterion = parts["criterion"]
        if not isinstance(criterion, str) or not criterion.strip() or not is_text(criterion):
            raise DataError("a leaf needs a text", field=f"{where}.criterion", value=criterion)
        return Leaf(criterion=criterion.strip(), critical=critical)
    name = typed_value(parts.get("name", ""), str, "a name is a text", f"{where}.name")
    strategy = parts.get("strategy", Strategy.PARALLEL)
    if not isinstance(strategy, str) or strategy not in set(Strategy):
        raise DataError("unknown strategy", field=f"{where}.strategy", value=strategy, allowed=Strategy)
    listed = typed_value(parts.get("children") or None, list[object], "a branch needs children", f"{where}.children")
    children = tuple(_node(child, f"{where}.children[{i}]", depth + 1) for i, child in enumerate(listed))
    for i, child in enumerate(children):
        if critical and not child.critical:
            raise DataError("the children of a critical node are critical", field=f"{where}.children[{i}]")
    return Branch(name=name, children=children, strategy=Strategy(strategy), critical=critical)


def typed_value(value: object, kind: type[T], what: str, field: str) -> T:
    """Return a value that is of a type; `what` is the error where it is of another."""
    if not isinstance(value, get_origin(kind) or kind):
        raise DataError(what, field=field, value=value)
    return cast("T", value)


def is_text(value: str) -> bool:
    """Return true if UTF-8 can hold it."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
