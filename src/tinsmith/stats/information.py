"""How much an answer tells about which paper was asked: the mutual information of paper and label.

It is near zero when every paper gets the same answer, whatever the answer's own spread: the earliest
sign of a collapse onto one label, and of answers drawn without looking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import log
from tinsmith.stats.rates import FloatArray
from tinsmith.types.errors import DataError

_DECIMALS = 12
"""What is below is rounding: equal answers would tell a little of the papers."""


def label_information(distributions: FloatArray) -> float:
    """Return I(X; Y) = H(mean of pi) - mean of H(pi) in nats, from every paper's label distribution.

    Exact for the papers given, when `distributions` are the policy's own probabilities. Between 0
    and log K. Frequencies among G samples a paper would bias it upwards by about (K - 1) / (2 G):
    use `sampled_information` for those.
    Source: RAGEN-2, arXiv:2604.06268, with the answer's label in place of the reasoning.

    Args:
        distributions: (N, K), rows sum to 1; all papers weigh the same.

    >>> round(label_information(np.eye(8)), 4)
    2.0794
    """
    pi = np.asarray(distributions, np.float64)
    if pi.ndim != 2 or not pi.size:
        raise DataError("every paper needs one distribution", field="shape", value=pi.shape, allowed="(N, K)")
    if not (np.isfinite(pi).all() and (pi >= 0).all() and np.abs(pi.sum(axis=1) - 1).max() < 1e-4):
        raise DataError("a row is not a distribution over the labels", field="distributions")
    within = math.fsum(_entropy(row) for row in pi.tolist()) / len(pi)
    marginal = [math.fsum(column) / len(pi) for column in pi.T.tolist()]
    return max(round(_entropy(marginal) - within, _DECIMALS), 0.0)


@dataclass(frozen=True, slots=True)
class SampledInformation:
    """The information seen in samples, and how much of it the small samples alone account for."""

    plug_in: float
    bias: float
    """Expected excess of `plug_in`, nats; `plug_in - bias` may be below zero."""


def sampled_information(counts: NDArray[np.int64]) -> SampledInformation:
    """Estimate I(X; Y) in nats from label counts of G samples a paper, (N, K), rows summing to G >= 2.

    The bias is Miller and Madow's: sum over papers of (m_i - 1) / (2 G N) minus (m - 1) / (2 G N),
    m_i and m being the labels seen for paper i and in all. With one sample a paper the information
    cannot be told from the answers' own spread.
    """
    sizes = np.unique(counts.sum(axis=1)) if counts.ndim == 2 and counts.size else np.zeros(1)
    if sizes.size != 1 or sizes[0] < 2 or (counts < 0).any():
        raise DataError("the same number of samples for every paper, two or more", field="counts", value=sizes.tolist())
    group, papers = float(sizes[0]), len(counts)
    seen = (counts > 0).sum(axis=1)
    labels = int((counts.sum(axis=0) > 0).sum())
    bias = (float((seen - 1).sum()) - (labels - 1)) / (2.0 * group * papers)
    return SampledInformation(label_information(counts / group), bias)


def _entropy(distribution: list[float]) -> float:
    present = np.array([p for p in distribution if p > 0.0])
    return -math.fsum((present * log(present)).tolist())
