"""Rows of a training step: prefix trees side by side, each laid out depth first.

A node is a run of tokens that the same datums share; its rows attend to those of the nodes above it and to their own. A
whole sequence is a tree of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops.paging import PAGE, Rows


class TreeNode(NamedTuple):
    """Node of a tree, with rows at positions first .. first + length."""

    first: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forest:
    """Rows of some trees, with the rows that each attends to."""

    rows: Rows
    """Nodes as sequences: a node's page table holds the keys of its path."""
    slots: Tensor
    """(pages * PAGE,) int64: row of the key in each slot of the pages; -1 for none."""
    units: Tensor
    """(n + 1,) int64: tree u has rows units[u] .. units[u + 1]."""
    unit_nodes: Tensor
    """(n + 1,) int64: tree u has nodes unit_nodes[u] .. unit_nodes[u + 1]."""
    paths: tuple[NDArray[np.int64], ...]
    """Per node, the row of every position up to its end."""

    @property
    def num_pages(self) -> int:
        """Number of pages for the keys."""
        return len(self.slots) // PAGE

    @property
    def trees(self) -> tuple[tuple[TreeNode, ...], ...]:
        """Nodes of each tree, depth first: the argument of `of`."""
        firsts = self.rows.first_pos.tolist()
        lengths = self.rows.row_begin.diff().tolist()
        nodes = tuple(map(TreeNode, firsts, lengths))
        return tuple(nodes[begin:end] for begin, end in pairwise(self.unit_nodes.tolist()))

    @staticmethod
    def whole(lengths: Sequence[int]) -> Forest:
        """Lay out whole sequences, each as a tree of its own."""
        return Forest.of([(TreeNode(0, length),) for length in lengths])

    @staticmethod
    def of(trees: Sequence[Sequence[TreeNode]]) -> Forest:
        """Lay out trees whose nodes come depth first.

        A page that lies wholly above a node is shared with its parent; a page that the node's start divides is copied,
        as when a sampler forks a prompt.
        """
        nodes = [each for tree in trees for each in tree]
        row_begin = np.cumsum([0, *(each.length for each in nodes)]).astype(np.int64)
        slots: list[NDArray[np.int64]] = []
        paths: list[NDArray[np.int64]] = []
        tables: list[list[int]] = []
        node = 0
        for tree in trees:
            above: list[int] = []
            for each in tree:
                while above and nodes[above[-1]].first >= each.first:
                    above.pop()
                own = np.arange(row_begin[node], row_begin[node + 1])
                parent = above[-1] if above else None
                path = own if parent is None else np.concatenate([paths[parent], own])
                shared = each.first // PAGE
                table = [] if parent is None else tables[parent][:shared]
                for begin in range(shared * PAGE, len(path), PAGE):
                    page = np.full(PAGE, -1, np.int64)
                    held = path[begin : begin + PAGE]
                    page[: len(held)] = held
                    table.append(len(slots))
                    slots.append(page)
                paths.append(path)
                tables.append(table)
                above.append(node)
                node += 1
        first = np.array([each.first for each in nodes], np.int64)
        unit_nodes = np.cumsum([0, *(len(tree) for tree in trees)]).astype(np.int64)
        widest = max((len(table) for table in tables), default=0)
        padded = np.zeros((len(nodes), widest), np.int32)
        for row, table in zip(padded, tables, strict=True):
            row[: len(table)] = table
        positions = np.repeat(first - row_begin[:-1], np.diff(row_begin)) + np.arange(row_begin[-1])
        return Forest(
            rows=Rows(
                row_begin=torch.from_numpy(row_begin),
                first_pos=torch.from_numpy(first),
                positions=torch.from_numpy(positions),
                table=torch.from_numpy(padded),
            ),
            slots=torch.from_numpy(np.concatenate(slots)),
            units=torch.from_numpy(row_begin[unit_nodes]),
            unit_nodes=torch.from_numpy(unit_nodes),
            paths=tuple(paths),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reads:
    """Targets whose log-probabilities are read, and their rows. A row may be read several times, or never."""

    rows: NDArray[np.int64]
    """(n,)"""
    targets: NDArray[np.int32]
    """(n,)"""
