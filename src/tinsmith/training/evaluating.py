"""Evaluations: one answer a paper, at the training temperature and greedily, and how probable each label is.

Every evaluation of a run draws with the same seeds, so that two of them differ by the policy and not by luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tinker

from tinsmith.analysis.evaluation import Answered, Evaluation
from tinsmith.analysis.information import label_information
from tinsmith.tasks.contracts import Answer
from tinsmith.tasks.paper import Item
from tinsmith.training.label_scores import label_probabilities, trained_label_logprobs
from tinsmith.training.policy import told_drift
from tinsmith.training.progress import Progress, untold
from tinsmith.training.rollout_metrics import Line, examined_lines
from tinsmith.training.rollouts import Rollout, Sampling, sample_groups
from tinsmith.training.settings import CommonSettings
from tinsmith.training.study import Study
from tinsmith.types.seeds import derive

PaperRollout = Rollout[Item, Answer]

PROBED = 48
"""Papers whose label probabilities are computed exactly, for the label's mutual information."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What an evaluation says, and the answers it rests on."""

    evaluation: Evaluation
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
    lines = examined_lines(step, split, answers, answer_facts, item_facts)
    rollouts = [one for one in answers if isinstance(one, Rollout)]
    evaluation = Evaluation(study.task.labels, tuple(_answered(one) for one in rollouts))
    return Evaluated(evaluation=evaluation, lines=lines, rollouts=rollouts)


def answer_facts(rollout: PaperRollout) -> Line:
    """Return what a rollout's line says of its answer."""
    answer = rollout.answer
    return {
        "outcome": answer.outcome.value,
        **item_facts(rollout.item),
        "predicted": answer.predicted,
        "confidence": answer.confidence,
    }


def item_facts(item: Item) -> Line:
    """Return what a rollout's line says of its paper."""
    return {"gold": item.gold}


def _answered(rollout: PaperRollout) -> Answered:
    answer = rollout.answer
    return Answered(
        item=rollout.item.paper.id,
        gold=rollout.item.gold,
        predicted=answer.predicted,
        outcome=answer.outcome.value,
        parse_ok=answer.parse_ok,
        confidence=answer.confidence,
        lenient=answer.lenient,
    )


def probe(
    trainer: tinker.TrainingClient,
    reference: tinker.SamplingClient | None,
    study: Study,
    items: Sequence[Item],
    rollouts: Sequence[PaperRollout],
) -> dict[str, float]:
    """Return how much the paper decides about the label, and how far the policy is from its base, in nats a token."""
    pi = label_probabilities(trained_label_logprobs(trainer, study, items[:PROBED]))
    metrics = {"eval/label_mi": label_information(pi)}
    if reference is not None and rollouts:
        metrics |= told_drift(reference, rollouts)
    return metrics
