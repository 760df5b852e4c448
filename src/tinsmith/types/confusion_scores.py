"""Scores of confusion matrices, over any stack of them at once.

A confusion matrix here is (K, K + 1): row y holds the items whose true label is y, column k < K those of them that were
answered k, column K those without a valid answer. Values may be counts or shares. All functions take `counts` of shape
(..., K, K + 1), float64 or integer, and work on the last two axes, so that ten thousand resamples cost one call. An
invalid answer is never correct and not a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def support(counts: FloatArray) -> FloatArray:
    """Return the items per true label, (..., K): the row sums R_y."""
    return counts.sum(axis=-1)


def correct(counts: FloatArray) -> FloatArray:
    """Return the right answers per label, (..., K): the diagonal C_kk."""
    return np.diagonal(counts[..., :-1], axis1=-2, axis2=-1)


def predicted(counts: FloatArray) -> FloatArray:
    """Return the answers per predicted label, (..., K): the column sums P_k, invalid left out."""
    return counts[..., :-1].sum(axis=-2)


def recall(counts: FloatArray) -> FloatArray:
    """Return C_kk / R_k, (..., K); NaN for a label that no item has."""
    return _ratio(correct(counts), support(counts), math.nan)


def precision(counts: FloatArray) -> FloatArray:
    """Return C_kk / P_k, (..., K); NaN for a label that was never predicted."""
    return _ratio(correct(counts), predicted(counts), math.nan)


def f1(counts: FloatArray) -> FloatArray:
    """Return 2 C_kk / (R_k + P_k), (..., K); 0 for a label neither present nor predicted."""
    return _ratio(2.0 * correct(counts), support(counts) + predicted(counts), 0.0)


def predicted_share(counts: FloatArray) -> FloatArray:
    """Return P_k / n, (..., K); with invalid answers the shares add up to less than 1."""
    return _ratio(predicted(counts), _total(counts)[..., None], math.nan)


def label_match(counts: FloatArray) -> FloatArray:
    """Return the share of right answers among all items, (...): accuracy, invalid counted wrong."""
    return _ratio(correct(counts).sum(axis=-1), _total(counts), math.nan)


def invalid_rate(counts: FloatArray) -> FloatArray:
    """Return the share of items without a valid answer, (...)."""
    return _ratio(counts[..., -1].sum(axis=-1), _total(counts), math.nan)


def macro_f1(counts: FloatArray) -> FloatArray:
    """Return macro-F1 over the K labels, (...); a label that is neither true nor predicted counts 0."""
    return f1(counts).mean(axis=-1)


def balanced_accuracy(counts: FloatArray) -> FloatArray:
    """Return balanced accuracy, the mean recall over the labels that occur, (...); chance is 1 / their number."""
    recalls = recall(counts)
    present = ~np.isnan(recalls)
    return _ratio(np.where(present, recalls, 0.0).sum(axis=-1), present.sum(axis=-1), math.nan)


def chance(golds: Iterable[object]) -> float:
    """Return the balanced accuracy of guessing: one over the number of true labels that occur.

    >>> chance(["a", "b", "a"])
    0.5
    """
    return 1.0 / len(set(golds))


def min_class_recall(counts: FloatArray) -> FloatArray:
    """Return the smallest recall over the labels that some item has, (...)."""
    recalls = recall(counts)
    lowest = np.where(np.isnan(recalls), math.inf, recalls).min(axis=-1)
    return np.where(np.isinf(lowest), math.nan, lowest)


def g_mean(counts: FloatArray) -> FloatArray:
    """Return the geometric mean of the recalls over the labels that some item has, (...).

    Source: Kubat and Matwin, ICML 1997 (two classes); 0 as soon as one label is lost.
    """
    recalls = recall(counts)
    present = ~np.isnan(recalls)
    product = np.where(present, recalls, 1.0).prod(axis=-1)
    number = present.sum(axis=-1)
    root = np.power(product, 1.0 / np.maximum(number, 1))
    return np.where(number == 0, math.nan, root)


def _total(counts: FloatArray) -> FloatArray:
    return counts.sum(axis=(-2, -1))


def _ratio(above: FloatArray, below: FloatArray, otherwise: float) -> FloatArray:
    """Divide, with `otherwise` where the divisor is zero."""
    above, below = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    return np.divide(above, below, out=np.full(above.shape, otherwise), where=below != 0)
