"""Evaluations: one answer a paper, at the training temperature and greedily, and how probable each label is.

Every evaluation of a run draws with the same seeds, so that two of them differ by the policy and not by luck.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tinker

from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.ground import Study
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.scores import label_probabilities, trained_label_logprobs
from tinsmith.lab.progress import Progress, untold
from tinsmith.lab.rollout_metrics import Line, examined_lines
from tinsmith.lab.rollouts import Rollout, Sampling, sample_groups
from tinsmith.lab.settings import CommonSettings
from tinsmith.stats.evaluation import Answered, Evaluation
from tinsmith.stats.evaluations import Evaluations
from tinsmith.stats.information import label_information
from tinsmith.types.seeds import derive

PaperRollout = Rollout[Item, Answer]

PROBED = 48
"""Papers whose label probabilities are computed exactly, for the label's mutual information."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What an evaluation says, and the answers it rests on."""

    evaluation: Evaluations
    lines: list[Line]
    rollouts: list[PaperRollout]


def evaluate(
    client: tinker.SamplingClient,
    study: Study,
    items: Sequence[Item],
    settings: CommonSettings,
    *,
    step: int,
    split: str,
    greedy: bool,
    progress: Progress = untold,
) -> Evaluated:
    """Ask for one answer a paper.

    Raises:
        BackendError: every answer failed.
    """
    sampling = Sampling(
        samples=1,
        max_tokens=settings.max_tokens,
        temperature=0.0 if greedy else settings.temperature,
        seed=derive(settings.seed, "evaluation"),
        progress=progress,
    )
    answers = [group[0] for group in sample_groups(client, study, items, sampling)]
    lines = examined_lines(step, split, answers, study.answer_facts, study.item_facts)
    rollouts = [one for one in answers if isinstance(one, Rollout)]
    by_subject = {
        subject.value: Evaluation(subject.labels, tuple(_answered(one, place) for one in rollouts))
        for place, subject in enumerate(study.task.subjects)
    }
    return Evaluated(evaluation=Evaluations(by_subject), lines=lines, rollouts=rollouts)


def _answered(rollout: PaperRollout, place: int) -> Answered:
    answer = rollout.answer.alone(place)
    return Answered(
        item=rollout.item.paper.id,
        gold=rollout.item.golds[place],
        predicted=answer.predicted,
        outcome=answer.outcome.value,
        parse_ok=answer.parse_ok,
        confidence=answer.confidence,
        lenient=answer.lenient,
    )


def information(
    trainer: tinker.TrainingClient, study: Study, items: Sequence[Item]
) -> dict[str, float]:
    """Return how much the paper decides about each subject's label, in nats, from the probabilities of all choices."""
    choices = study.choices()
    pi = label_probabilities(trained_label_logprobs(trainer, study, items[:PROBED])).tolist()
    found: dict[str, float] = {}
    for place, subject in enumerate(study.task.subjects):
        alone = [
            [
                math.fsum(
                    p for p, labels in zip(row, choices, strict=True) if labels[place] == label
                )
                for label in subject.labels
            ]
            for row in pi
        ]
        found[subject.value] = label_information(np.array(alone))
    return found
