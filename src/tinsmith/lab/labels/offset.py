"""SFT's honest comparator: offsets of the labels' log-probabilities, chosen on validation for macro-F1.

The decision is argmax_k (log p_k + b_k): it moves the balance between classes after the fact, without any training
(logit adjustment, arXiv:2007.07314). The offsets are found on a grid; among equals the smallest wins.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import tinker
from numpy.typing import NDArray

from tinsmith.lab.labels.contracts import Outcome
from tinsmith.lab.labels.labelled_papers import LabelledPapers
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.scores import label_logprobs
from tinsmith.lab.rollout_metrics import Line
from tinsmith.stats.confusion import Confusion
from tinsmith.stats.evaluation import Answered, Evaluation
from tinsmith.stats.rates import Metric

GRID = tuple(float(each) / 4 for each in range(-8, 9))
"""Offsets of a label against the first one, in nats."""


def tested_with_offset(
    client: tinker.SamplingClient,
    study: LabelledPapers,
    validation_items: Sequence[Item],
    test_items: Sequence[Item],
    *,
    step: int,
) -> tuple[dict[str, float], list[Line]]:
    """Choose offsets on validation papers, decide test papers by them; return metrics and lines `test_offset`."""
    labels = study.task.labels
    validation = label_logprobs(client, study, validation_items)
    offsets = best_offsets(validation, [item.gold for item in validation_items], labels)
    chosen = decide(label_logprobs(client, study, test_items), offsets)
    predicted = [labels[k] for k in chosen]
    evaluation = Evaluation(
        labels,
        tuple(
            Answered(
                item=item.paper.id,
                gold=item.gold,
                predicted=label,
                outcome=Outcome.OK.value,
                parse_ok=True,
                lenient=label,
            )
            for item, label in zip(test_items, predicted, strict=True)
        ),
    )
    metrics = dict(evaluation.metrics("test_offset"))
    metrics |= {f"offset/{label}": b for label, b in zip(labels, offsets, strict=True)}
    lines: list[Line] = [
        {
            "step": step,
            "split": "test_offset",
            "prompt_id": item.paper.id,
            "sample": 0,
            "tokens": [],
            "text": "",
            "outcome": Outcome.OK.value,
            "gold": item.gold,
            "predicted": label,
            "confidence": None,
        }
        for item, label in zip(test_items, predicted, strict=True)
    ]
    return metrics, lines


def decide(logprobs: NDArray[np.float64], offsets: tuple[float, ...]) -> list[int]:
    """Return the label of each row of [N, K]; the first among equals."""
    return [int(k) for k in (logprobs + np.array(offsets)).argmax(axis=1)]


def best_offsets(logprobs: NDArray[np.float64], golds: list[str], labels: tuple[str, ...]) -> tuple[float, ...]:
    """Return the offsets on the grid with the largest macro-F1; the first label's is 0."""

    def quality(offsets: tuple[float, ...]) -> tuple[float, float]:
        predicted = [labels[k] for k in decide(logprobs, offsets)]
        score = Confusion.of(labels, golds, predicted).score(Metric.MACRO_F1)
        return score, -sum(abs(b) for b in offsets)

    candidates = ((0.0, *rest) for rest in itertools.product(GRID, repeat=len(labels) - 1))
    return max(candidates, key=quality)
