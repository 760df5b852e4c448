"""Mutual information of papers and labels, and of prompts and answers estimated by cross-scores.

It is near zero when every paper gets the same answer, whatever the answer's own spread: the earliest sign of a
collapse onto one label. With H(Z) = I(X; Z) + H(Z | X), a policy whose answers still vary but no longer depend on what
was asked has a high H(Z | X) and a low I: its answers are templates. Every answer is scored after every prompt.
Source: RAGEN-2, arXiv:2604.06268, sec. 3; code mll-lab-nu/RAGEN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import exp, log
from tinsmith.stats.rates import FloatArray
from tinsmith.types.errors import DataError

_DECIMALS = 12  # What is below is rounding: equal answers would tell a little of the papers.


def label_information(distributions: FloatArray) -> float:
    """Return I(X; Y) = H(mean of pi) - mean of H(pi) in nats, from every paper's label distribution.

    Exact for the papers given, when `distributions` are the policy's own probabilities. Between 0
    and log K. Frequencies among G samples a paper would bias it upwards by about (K - 1) / (2 G).
    Source: RAGEN-2, arXiv:2604.06268, with the answer's label in place of the reasoning.

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


def _entropy(distribution: list[float]) -> float:
    present = np.array([p for p in distribution if p > 0.0])
    return -math.fsum((present * log(present)).tolist())


Floats = NDArray[np.float64]

STD_FLOOR: Final = 1e-3  # Added to the deviation that the z-score divides by, as published.


def information(scores: Floats, lengths: Sequence[int] | None = None) -> dict[str, float]:
    """Return information estimates from cross-scores (N, N): [i, j] is log p(answer i | prompt j), in nats.

    It is summed over the answer's tokens. With their `lengths` everything is told by token instead, and I is capped at
    log N per answer no more.

    Returns:
        By name: `mutual_information` I(X; Z), the mean of matched less marginal, at most log N, however much more an
        answer tells; `entropy_given_prompt` H(Z | X), minus the mean log-probability of an answer after its own prompt;
        `entropy` H(Z), the same under the mixture of all prompts; `retrieval_accuracy`, the share of answers that are
        likeliest after their own prompt, by chance 1 / N; `mi_z_score`, I over the deviation of the marginal
        log-probabilities.

    >>> round(information(np.log(np.full((4, 4), 0.25)))["mutual_information"], 9)
    0.0
    """
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or len(scores) < 2:
        what = "every answer is scored after every prompt"
        raise DataError(what, field="scores", value=scores.shape, allowed="(N, N), two or more")
    if not np.isfinite(scores).all():
        raise DataError("a log-probability is not finite", field="scores")
    if lengths is not None:
        if len(lengths) != len(scores) or min(lengths) < 1:
            raise DataError("every answer has one or more tokens", field="lengths", value=list(lengths))
        scores = scores / np.array(lengths, np.float64)[:, None]
    matched = np.diagonal(scores).tolist()
    mixed = [_log_mean_exp(row) for row in scores]
    gaps = [one - other for one, other in zip(matched, mixed, strict=True)]
    mutual = fmean(gaps)
    centre = fmean(mixed)
    spread = math.sqrt(fmean([(one - centre) ** 2 for one in mixed]))
    # The first of equal scores is taken: an answer that tells of no prompt is found for the first one alone.
    retrieved = [int(row.argmax()) == place for place, row in enumerate(scores)]
    return {
        "mutual_information": mutual,
        "entropy_given_prompt": -fmean(matched),
        "entropy": -centre,
        "retrieval_accuracy": sum(retrieved) / len(retrieved),
        "mi_z_score": mutual / (spread + STD_FLOOR),
    }


def _log_mean_exp(row: Floats) -> float:
    """Return the log of the mean of exp, with the same bits on every machine."""
    highest = float(row.max())
    total = math.fsum(exp(row - highest).tolist())
    return highest + float(log(np.array([total / len(row)]))[0])
