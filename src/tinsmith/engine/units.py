"""Division of a request into gradient units: the datums of each prefix tree, and the order of its rows.

Only the request's tokens decide, never a machine's memory or the batch. Trees are tries: the datums of a node continue
with different tokens, in the order of their first occurrence in the request. A trie is cut between branches, from the
root down: where what they share saves less than an eighth of the rows (a chat template's first words), and where they
have more rows than `TREE_ROWS` and more than twice those of the longest datum. Each part recomputes the rows above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.forest import TreeNode
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import IntArray

TREE_ROWS: Final = 2048
"""Rows that a tree of several datums may always have: the activations of a unit are held together."""
LEAST_SAVED: Final = 8
"""A prefix is shared if that saves at least one of this many rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unit:
    """Datums that share rows, and these rows."""

    datums: tuple[int, ...]
    """Indices in the request, ascending."""
    nodes: tuple[TreeNode, ...]
    """Nodes, depth first."""
    tokens: IntArray
    """Token of every row."""
    rows_of: tuple[NDArray[np.int64], ...]
    """Per datum, the row of each of its positions."""

    @property
    def num_rows(self) -> int:
        """Number of rows to compute."""
        return len(self.tokens)


def units_of(sequences: Sequence[IntArray], how: GradientUnit, *, tree_rows: int = TREE_ROWS) -> list[Unit]:
    """Cut a request's token sequences into units, in the order of each unit's first datum."""
    if how is GradientUnit.DATUM:
        return [_unit(sequences, [i]) for i in range(len(sequences))]
    parts: list[list[int]] = []
    by_token: dict[int, list[int]] = {}
    for i, tokens in enumerate(sequences):
        by_token.setdefault(int(tokens[0]), []).append(i)
    limit = max(tree_rows, 2 * max(map(len, sequences), default=0))
    for together in by_token.values():
        parts += _cut(_trie(sequences, together), limit)
    return [_unit(sequences, part) for part in sorted(sorted(part) for part in parts)]


@dataclass(slots=True, eq=False)
class _Node:
    """Positions first .. end, shared by `datums`; those in `ends` end here."""

    first: int
    end: int
    datums: list[int]
    ends: list[int] = field(default_factory=list[int])
    children: list[_Node] = field(default_factory=list["_Node"])
    rows: int = 0
    """Rows of the node and all below it."""


def _trie(sequences: Sequence[IntArray], datums: list[int]) -> _Node:
    """Build the trie of datums that share at least their first token."""
    root = _Node(0, 0, datums)
    made = [root]
    for node in made:  # grows while it is read: a node comes before its children
        node.end = _common_end(sequences, node)
        groups: dict[int, list[int]] = {}
        for i in node.datums:
            if len(sequences[i]) == node.end:
                node.ends.append(i)
            else:
                groups.setdefault(int(sequences[i][node.end]), []).append(i)
        node.children = [_Node(node.end, node.end, group) for group in groups.values()]
        made += node.children
    for node in reversed(made):
        node.rows = node.end - node.first + sum(child.rows for child in node.children)
    return root


def _common_end(sequences: Sequence[IntArray], node: _Node) -> int:
    """Return the end of the positions on which all datums of a node agree."""
    tokens = sequences[node.datums[0]]
    end = min(len(sequences[i]) for i in node.datums)
    for i in node.datums[1:]:
        differ = tokens[node.first : end] != sequences[i][node.first : end]
        if differ.any():
            end = node.first + int(differ.argmax())
    return end


def _cut(root: _Node, limit: int) -> list[list[int]]:
    """Divide a trie's datums among units: neighbours stay together if that saves enough and they fit."""
    parts: list[list[int]] = []
    todo: list[tuple[_Node, int, list[int]]] = [(root, 0, [])]
    while todo:
        node, above, ended = todo.pop()  # datums that ended above cost nothing in the first part below
        path = above + node.end - node.first
        below = above + node.rows - path
        branches = len(node.children)
        worth = LEAST_SAVED * (branches - 1) * path >= branches * path + below
        if branches == 0 or (branches > 1 and worth and path + below <= limit):
            parts.append(ended + node.datums)
        elif branches == 1 or not worth:
            first, *others = node.children
            todo += [(first, path, ended + node.ends), *((child, path, []) for child in others)]
        else:
            parts += _neighbours(node, path, ended + node.ends, limit, todo)
    return parts


def _neighbours(
    node: _Node, path: int, ended: list[int], limit: int, todo: list[tuple[_Node, int, list[int]]]
) -> list[list[int]]:
    """Pack the branches of a node into parts, in order; parts that are still too large are cut later."""
    parts: list[list[int]] = []
    part, rows = ended, path
    for child in node.children:
        if path + child.rows > limit:
            todo.append((child, path, part if rows == path else []))
            part = [] if rows == path else part
            continue
        if rows > path and rows + child.rows > limit:
            parts.append(part)
            part, rows = [], path
        part = part + child.datums
        rows += child.rows
    return [*parts, part] if part else parts


def _unit(sequences: Sequence[IntArray], datums: list[int]) -> Unit:
    """Lay out the tree of these datums, depth first."""
    nodes: list[TreeNode] = []
    tokens: list[IntArray] = []
    rows_of: dict[int, NDArray[np.int64]] = {}
    todo: list[tuple[_Node, NDArray[np.int64]]] = [(_trie(sequences, datums), np.zeros(0, np.int64))]
    row = 0
    while todo:
        node, above = todo.pop()
        count = node.end - node.first
        path = np.concatenate([above, np.arange(row, row + count)])
        row += count
        nodes.append(TreeNode(node.first, count))
        tokens.append(sequences[node.datums[0]][node.first : node.end])
        rows_of.update((i, path) for i in node.ends)
        todo += [(child, path) for child in reversed(node.children)]
    return Unit(
        datums=tuple(datums),
        nodes=tuple(nodes),
        tokens=np.concatenate(tokens),
        rows_of=tuple(rows_of[i] for i in datums),
    )
