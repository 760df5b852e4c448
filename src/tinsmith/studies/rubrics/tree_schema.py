"""The JSON form of rubric trees, read strictly: what is wrong is said with its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from tinsmith.lab.judge.tree import Branch, Leaf, Node, Strategy
from tinsmith.types.errors import DataError

MAX_DEPTH: Final = 32
"""Levels of a tree, the root included."""

_BRANCH_KEYS: Final = ("name", "strategy", "critical", "children")


def tree_of(value: object) -> Node:
    """Return the tree that a JSON value describes.

    Raises:
        DataError: it is no such tree, or has more than MAX_DEPTH levels; `field` is the node.

    >>> tree_of({"children": [{"criterion": "is short", "critical": True}]}).children[0].critical
    True
    """
    return _node(value, "rubric_tree", 1)


def _node(value: object, where: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise DataError(f"a tree has at most {MAX_DEPTH} levels", field=where)
    if not isinstance(value, dict):
        raise DataError("a node is an object", field=where, value=value)
    parts = cast("Mapping[str, object]", value)
    known = ("criterion", "critical") if "criterion" in parts else _BRANCH_KEYS
    for key in parts:
        if key not in known:
            raise DataError(f"unknown key {key!r}", field=where, allowed=", ".join(known))
    critical = parts.get("critical", False)
    if not isinstance(critical, bool):
        raise DataError("true or false", field=f"{where}.critical", value=critical)
    if "criterion" in parts:
        criterion = parts["criterion"]
        if not isinstance(criterion, str) or not criterion.strip() or not _is_text(criterion):
            raise DataError("a leaf needs a text", field=f"{where}.criterion", value=criterion)
        return Leaf(criterion=criterion.strip(), critical=critical)
    return _branch(parts, critical, where, depth)


def _branch(parts: Mapping[str, object], critical: bool, where: str, depth: int) -> Branch:
    name, strategy = parts.get("name", ""), parts.get("strategy", Strategy.PARALLEL)
    if not isinstance(name, str):
        raise DataError("a name is a text", field=f"{where}.name", value=name)
    if not isinstance(strategy, str) or strategy not in set(Strategy):
        allowed = ", ".join(Strategy)
        raise DataError(
            "unknown strategy", field=f"{where}.strategy", value=strategy, allowed=allowed
        )
    listed = parts.get("children")
    if not isinstance(listed, list) or not listed:
        raise DataError("a branch needs children", field=f"{where}.children", value=listed)
    children = tuple(
        _node(child, f"{where}.children[{i}]", depth + 1)
        for i, child in enumerate(cast("list[object]", listed))
    )
    for i, child in enumerate(children):
        if critical and not child.critical:
            raise DataError(
                "the children of a critical node are critical", field=f"{where}.children[{i}]"
            )
    return Branch(name=name, children=children, strategy=Strategy(strategy), critical=critical)


def _is_text(value: str) -> bool:
    """Whether UTF-8 can hold it."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
