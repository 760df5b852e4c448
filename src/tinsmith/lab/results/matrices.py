"""Confusion matrices as a page shows them: counts and shares of each true label, invalid answers in a last column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.results.gathering import Gathered
from tinsmith.lab.runs.records import SPLIT_WORDS, Split
from tinsmith.pages.document import Block, Label, Matrices, Matrix, MatrixCell, missing, note
from tinsmith.pages.palette import class_slot


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
        labels=tuple(Label(name, class_slot(name, k)) for k, name in enumerate(labels)),
        rows=tuple(rows),
        num_items=int(counts.sum()),
    )


def shown_splits(gathered: Gathered) -> tuple[Split, ...]:
    """Return the splits whose answers a page of one run shows: the test's, or the validation's where it has none."""
    tested = tuple(split for split in (Split.TEST, Split.TEST_GREEDY) if gathered.last(split))
    return tested or (Split.EVAL, Split.EVAL_GREEDY)


def evaluated_matrices(gathered: Gathered) -> list[Matrix]:
    """Return the matrices of one run's last evaluations."""
    found: list[Matrix] = []
    for split in shown_splits(gathered):
        evaluation = gathered.last(split)
        if evaluation is not None:
            confusion, words = evaluation.confusion(), SPLIT_WORDS[split]
            caption = f"{words[0].upper()}{words[1:]}, {confusion.num_items:,} papers"
            found.append(matrix(caption, confusion.labels, confusion.counts))
    return found


def confusion_blocks(matrices: Sequence[Matrix], empty: str, items: str = "papers") -> tuple[Block, ...]:
    """Return matrices with what they show; `empty` says why there are none."""
    words = f"Rows are true labels; each cell is the share of the row, its {items} below."
    return note(words), Matrices(matrices) if matrices else missing(empty)
