"""The exact policy gradient over labels: every label of a prompt is scored instead of some being sampled.

With K labels of probability pi_k (normalised over the labels) and reward r_k it is
sum_k pi_k (r_k - sum_j pi_j r_j) grad log pi_k: mean actor-critic (arXiv:1709.00503) over the one choice that the task
term pays for; a conditional expectation over that choice, so Rao-Blackwell's. A sampled step adds up its group_size
rollouts of a prompt, so here the sum is multiplied by group_size: a group in which every label has exactly its share
pi_k gives the same gradient. (What a sampled group gives on average is (group_size - 1) / group_size of it, because
under `center` a rollout is in its own baseline; `rloo` takes that back.)

It carries the task term alone, given that an answer keeps the contract. That it does is what sampled rollouts teach
beside it, by parse, contract and think: their advantages leave the task term out. What collapses under this gradient
collapses because of the objective, and not of its estimator. A reward's state is the sampled answers', as in every run:
the same window, broken answers counted, so that the objective is the same too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import tinker
from numpy.typing import NDArray

from tinsmith.lab.datums import answer_datum
from tinsmith.lab.labels.labelled_papers import LabelledPapers
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.scores import label_probabilities, trained_label_logprobs
from tinsmith.lab.rewards.terms import rounded_sum
from tinsmith.lab.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelGradient:
    """The exact gradient of one step's task terms."""

    study: LabelledPapers
    paid: NDArray[np.float64]
    """[K, K]: what a valid answer k (column) about a paper of label y (row) earns, by the state before the step.

    The contract's term is in it too; it is the same for all valid answers and cancels.
    """
    group_size: int

    def datums(self, trainer: tinker.TrainingClient, items: Sequence[Item]) -> list[tinker.Datum]:
        """Return cross-entropy datums whose gradient is that of the items, under the trainer's weights of now."""
        study, labels = self.study, self.study.task.labels
        pi = label_probabilities(trained_label_logprobs(trainer, study, items))
        paid = self.paid[[labels.index(item.gold) for item in items]]
        weights = self.group_size * label_weights(pi, paid)
        openings = [study.label_tokens(label) for label in labels]
        # The weights of a prompt sum to zero, so what all openings share would cancel; here it never enters.
        columns = zip(*openings, strict=False)
        shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
        return [
            answer_datum((*study.prompt(item), *opening), len(study.prompt(item)) + shared, weight)
            for item, row in zip(items, weights.tolist(), strict=True)
            for opening, weight in zip(openings, row, strict=True)
        ]

    def besides(self, terms: Terms) -> float:
        """Return a reward without its task term."""
        return rounded_sum(*(getattr(terms, name) for name in terms.names() if name != "task"))


def label_weights(pi: NDArray[np.float64], paid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [N, K] weights of grad log pi_k from probabilities [N, K] and rewards [N, K].

    >>> label_weights(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([[ 0.25, -0.25]])
    """
    expected = np.array([math.fsum(row) for row in (pi * paid).tolist()], dtype=np.float64)
    return pi * (paid - expected[:, None])
