"""How probable a model finds each label: the log-probability of every label's opening after the prompt.

Exact where sampling only estimates: it serves the label's mutual information, `predict_proba`, the logit offset, the
incentive analyser and the exact policy gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker import types

from tinsmith.ops.exact import exp
from tinsmith.tasks.paper import Item
from tinsmith.training.rollouts import WAIT_SECONDS
from tinsmith.training.study import Study


def label_logprobs(
    client: tinker.SamplingClient, study: Study, items: Sequence[Item]
) -> NDArray[np.float64]:
    """Return [N, K] log-probabilities of the openings of the K labels, at temperature 1; not normalised.

    Raises:
        TinkerError: the server failed.
    """
    openings = [study.label_tokens(label) for label in study.task.labels]
    pending = [
        client.compute_logprobs(types.ModelInput.from_ints([*study.prompt(item), *opening]))
        for item in items
        for opening in openings
    ]
    lengths = [len(opening) for _ in items for opening in openings]
    sums = [
        math.fsum(value or 0.0 for value in future.result(WAIT_SECONDS)[-length:])
        for future, length in zip(pending, lengths, strict=True)
    ]
    return np.array(sums, dtype=np.float64).reshape(len(items), len(openings))


def label_probabilities(logprobs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalise [N, K] log-probabilities over the labels, with the same bits on every machine."""
    weights = exp(logprobs - logprobs.max(axis=1, keepdims=True))
    totals = np.array([math.fsum(row) for row in weights.tolist()], dtype=np.float64)
    return weights / totals[:, None]
