"""Confusion matrices as a page shows them: counts and shares of each true label, invalid answers in a last column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.reports.palette import class_slot


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One cell; `share` is of the papers with the row's true label, 0 where there are none."""

    count: int
    share: float
    diagonal: bool
    invalid: bool


@dataclass(frozen=True, slots=True)
class MatrixLabel:
    """The name of a row or column, and the slot of its colour."""

    name: str
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """One confusion matrix: `rows` (K,) of K + 1 cells each."""

    caption: str
    labels: tuple[MatrixLabel, ...]
    rows: tuple[tuple[MatrixCell, ...], ...]
    num_items: int


def matrix(caption: str, labels: Sequence[str], counts: NDArray[np.int64]) -> Matrix:
    """Return the matrix of `counts` (K, K + 1): true label by answer, the last column invalid."""
    rows: list[tuple[MatrixCell, ...]] = []
    for y, row in enumerate(counts.tolist()):
        total = sum(row)
        rows.append(
            tuple(
                MatrixCell(count, count / total if total else 0.0, k == y, k == len(labels))
                for k, count in enumerate(row)
            )
        )
    return Matrix(
        caption=caption,
        labels=tuple(MatrixLabel(name, class_slot(name, k)) for k, name in enumerate(labels)),
        rows=tuple(rows),
        num_items=int(counts.sum()),
    )
