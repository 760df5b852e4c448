"""Confidence along a chain of reasoning, from log-probabilities, and the penalty on premature certainty.

Source: Understanding and Mitigating Premature Confidence for Better LLM Reasoning, arXiv:2605.24396; self-certainty is
Intuitor's, arXiv:2505.19590.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import exp, log

FRACTIONS: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Shares of the reasoning after which an answer is forced."""
WEIGHTS: Final = (0.5, 0.3, 0.1, -0.1, -0.3, -0.5)
"""Weights of the confidence after each; they sum to 0, so that a constant confidence costs nothing."""


def forced_choice(logprobs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of the answers, given that it is one of them.

    Args:
        logprobs: (K,), of each complete answer.

    Returns:
        (K,), summing to 1.
    """
    shares = exp(logprobs - logprobs.max())
    return shares / math.fsum(shares.tolist())


def premature(confidence: Sequence[float]) -> float:
    """Return <c, w>: above 0 if confidence falls along the reasoning, below 0 if it rises.

    >>> premature([0.3] * 6)
    0.0
    >>> round(premature([0.0, 0.2, 0.4, 0.6, 0.8, 1.0]), 12)
    -0.7
    """
    return math.fsum(weight * one for weight, one in zip(WEIGHTS, confidence, strict=True))


def self_certainty(probabilities: NDArray[np.float64]) -> float:
    """Return KL(U || p) over K answers in nats: -(1 / K) sum log(K p); 0 if all are equal.

    It ignores the correct answer, so that a reward for it pays for early certainty.
    """
    least = np.maximum(probabilities, np.finfo(np.float64).tiny)
    return -math.fsum(log(len(least) * least).tolist()) / len(least)
