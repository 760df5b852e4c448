"""How much answers tell of their prompts: mutual information and entropies from cross-scores, and retrieval.

Every answer is scored after every prompt. With H(Z) = I(X; Z) + H(Z | X), a policy whose answers still vary but no
longer depend on what was asked has a high H(Z | X) and a low I: its answers are templates.
Source: RAGEN-2, arXiv:2604.06268, sec. 3; code mll-lab-nu/RAGEN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import exp, log
from tinsmith.types.errors import DataError

Floats = NDArray[np.float64]

STD_FLOOR: Final = 1e-3
"""Added to the deviation that the z-score divides by, as published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Information:
    """What N answers, one to each of N prompts, say; nats, of a whole answer or a token."""

    mutual: float
    """I(X; Z): mean of matched less marginal; at most log N, however much more an answer tells."""
    given: float
    """H(Z | X): minus the mean log-probability of an answer after its own prompt."""
    marginal: float
    """H(Z): the same under the mixture of all prompts."""
    retrieval: float
    """Share of answers that are likeliest after their own prompt; by chance 1 / N."""
    z_score: float
    """I over the deviation of the marginal log-probabilities."""
    prompts: int


def information(scores: Floats, lengths: Sequence[int] | None = None) -> Information:
    """Return what cross-scores say.

    Args:
        scores: (N, N); [i, j] is the log-probability of answer i after prompt j, in nats, summed over its tokens.
        lengths: tokens of each answer: everything is then told by token, and I is capped at log N per answer no more.

    >>> round(information(np.log(np.full((4, 4), 0.25))).mutual, 9)
    0.0
    """
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or len(scores) < 2:
        raise DataError(
            "every answer is scored after every prompt",
            field="scores",
            value=scores.shape,
            allowed="(N, N), two or more",
        )
    if not np.isfinite(scores).all():
        raise DataError("a log-probability is not finite", field="scores")
    if lengths is not None:
        if len(lengths) != len(scores) or min(lengths) < 1:
            raise DataError("every answer has one or more tokens", field="lengths", value=list(lengths))
        scores = scores / np.array(lengths, np.float64)[:, None]
    matched = np.diagonal(scores).tolist()
    mixed = [_log_mean_exp(row) for row in scores]
    gaps = [one - other for one, other in zip(matched, mixed, strict=True)]
    mutual = _mean(gaps)
    centre = _mean(mixed)
    spread = math.sqrt(_mean([(one - centre) ** 2 for one in mixed]))
    # The first of equal scores is taken: an answer that tells of no prompt is found for the first one alone.
    found = [int(row.argmax()) == place for place, row in enumerate(scores)]
    return Information(
        mutual=mutual,
        given=-_mean(matched),
        marginal=-centre,
        retrieval=sum(found) / len(found),
        z_score=mutual / (spread + STD_FLOOR),
        prompts=len(scores),
    )


def _log_mean_exp(row: Floats) -> float:
    """Return the log of the mean of exp, by functions whose bits are the same everywhere."""
    highest = float(row.max())
    total = math.fsum(exp(row - highest).tolist())
    return highest + float(log(np.array([total / len(row)]))[0])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
