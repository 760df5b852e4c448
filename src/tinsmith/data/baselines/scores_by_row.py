"""Scores of a baseline from its confusion matrix: four figures, each with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.confusion_scores import label_match, macro_f1, recall

RESAMPLES = 1000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """Accuracy, macro-F1 and recalls of `b` confusion matrices at once; NaN for labels without papers."""

    accuracy: NDArray[np.float64]
    """(b,)"""
    macro_f1: NDArray[np.float64]
    """(b,), over all classes: one that is neither in the test split nor predicted counts as 0."""
    min_recall: NDArray[np.float64]
    """(b,), over the classes of the test split; NaN if a resample lost one of them."""
    recall: NDArray[np.float64]
    """(b, k)"""


def figures(confusion: NDArray[np.float64], occurs: NDArray[np.bool_]) -> Figures:
    """Score confusion matrices (b, k, k), gold by predicted; `occurs` (k,): classes in the test split."""
    counts = np.concatenate([confusion, np.zeros((*confusion.shape[:-1], 1))], axis=-1)  # every answer is valid
    recalls = recall(counts)
    return Figures(
        accuracy=label_match(counts), macro_f1=macro_f1(counts), min_recall=recalls[:, occurs].min(1), recall=recalls
    )


def resampled(confusion: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Draw RESAMPLES bootstrap confusion matrices (b, k, k).

    A resample of n rows with replacement has a confusion matrix from the multinomial with n trials and the observed
    cells' shares.
    """
    total = round(float(confusion.sum()))
    generator = np.random.Generator(np.random.PCG64(seed))
    cells = generator.multinomial(total, confusion.ravel() / confusion.sum(), size=RESAMPLES)
    return cells.reshape(RESAMPLES, *confusion.shape).astype(np.float64)


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the percentile interval of one figure's resamples (b,), ignoring NaN."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return (0.0, 1.0)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(finite, [tail, 100 - tail])
    return (float(low), float(high))


def prior_figures(gold: NDArray[np.int64], shares: NDArray[np.float64]) -> Figures:
    """Return the exact expected figures of guessing each class by its share, shape b = 1.

    `gold` (k,): papers of each class in the test split; `shares` (k,): their shares in training.
    With M of n papers guessed as a class of g papers, the expected number of hits is M g / n; so
    E[F1] = sum over M of Binomial(M; n, share) 2 (M g / n) / (g + M). Recalls of different classes
    are independent, so E[min] is the integral over t of the product of P(recall >= t).
    """
    from scipy.stats import binom  # most runs only read computed baselines

    total = int(gold.sum())
    occurs = np.flatnonzero(gold)
    guessed = np.arange(total + 1)
    f1 = np.zeros(len(gold))
    for k in occurs:
        ratio = 2 * guessed * (gold[k] / total) / (gold[k] + guessed)
        f1[k] = (binom.pmf(guessed, total, shares[k]) * ratio).sum()  # the order of a product depends on the processor
    steps = [np.arange(1, gold[k] + 1) / gold[k] for k in occurs]
    grid = np.unique(np.concatenate(steps))
    reached = np.ones(len(grid))
    for k, step in zip(occurs, steps, strict=True):
        reached *= binom.sf(np.searchsorted(step, grid), gold[k], shares[k])
    return Figures(
        accuracy=np.array([float((gold * shares).sum()) / total]),
        macro_f1=np.array([f1.mean()]),
        min_recall=np.array([float((np.diff(grid, prepend=0.0) * reached).sum())]),
        recall=np.where(gold > 0, shares, np.nan)[None, :],
    )
