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

from tinsmith.lab.datums import answer_datum
from tinsmith.lab.labels.labelled_papers import LabelledPapers
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.rollouts import WAIT_SECONDS
from tinsmith.ops.exact import exp
from tinsmith.stats.information import label_information

PROBED = 48
"""Papers whose label probabilities are computed exactly, for the label's mutual information."""


def label_logprobs(client: tinker.SamplingClient, study: LabelledPapers, items: Sequence[Item]) -> NDArray[np.float64]:
    """Return [N, K] log-probabilities of the openings of the K labels, at temperature 1; not normalised.

    Of a task about several subjects K counts the combinations of their labels, as `LabelledPapers.choices` has them.
    For a policy that is only served: one request a paper and label.
    """
    openings = [study.label_tokens(labels) for labels in study.choices()]
    pending = [
        client.compute_logprobs(types.ModelInput.from_ints([*study.prompt(item), *opening]))
        for item in items
        for opening in openings
    ]
    found = [future.result(WAIT_SECONDS) for future in pending]
    return _sums([[value or 0.0 for value in each] for each in found], openings)


def trained_label_logprobs(
    trainer: tinker.TrainingClient, study: LabelledPapers, items: Sequence[Item]
) -> NDArray[np.float64]:
    """Return what `label_logprobs` would for the trainer's weights, in one call for all papers and labels.

    Where sampler and trainer are one model the bits are the same.
    """
    openings = [study.label_tokens(labels) for labels in study.choices()]
    prompts = [study.prompt(item) for item in items]
    datums = [answer_datum((*prompt, *opening), len(prompt), 1.0) for prompt in prompts for opening in openings]
    outputs = trainer.forward(datums, "cross_entropy").result(WAIT_SECONDS).loss_fn_outputs
    return _sums([output["logprobs"].tolist() for output in outputs], openings)


def _sums(found: Sequence[Sequence[float]], openings: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
    """Sum the log-probabilities of each opening, which ends its sequence; [N, K] from N * K sequences."""
    sums = [math.fsum(values[-len(openings[place % len(openings)]) :]) for place, values in enumerate(found)]
    return np.array(sums, dtype=np.float64).reshape(-1, len(openings))


def label_probabilities(logprobs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalise [N, K] log-probabilities over the labels, with the same bits on every machine."""
    weights = exp(logprobs - logprobs.max(axis=1, keepdims=True))
    totals = np.array([math.fsum(row) for row in weights.tolist()], dtype=np.float64)
    return weights / totals[:, None]


def information(trainer: tinker.TrainingClient, study: LabelledPapers, items: Sequence[Item]) -> dict[str, float]:
    """Return how much the paper decides about each subject's label, in nats, from the probabilities of all choices."""
    choices = study.choices()
    pi = label_probabilities(trained_label_logprobs(trainer, study, items[:PROBED])).tolist()
    found: dict[str, float] = {}
    for place, subject in enumerate(study.task.subjects):
        alone = [
            [
                math.fsum(p for p, labels in zip(row, choices, strict=True) if labels[place] == label)
                for label in subject.labels
            ]
            for row in pi
        ]
        found[subject.value] = label_information(np.array(alone))
    return found
