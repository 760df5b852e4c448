"""The exact policy gradient over labels: every label is scored instead of some being sampled.

With K labels of probability pi_k and reward r_k the gradient is sum_k pi_k (r_k - sum_j pi_j r_j) grad log pi_k: the
limit of GRPO for ever larger groups (mean actor-critic, arXiv:1709.00503). What collapses under it collapses because of
the objective, and not of its estimator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tinker

from tinsmith.ops.exact import mean
from tinsmith.tasks.paper import Item
from tinsmith.tasks.rewards import Reward
from tinsmith.training.datums import answer_datum
from tinsmith.training.label_scores import label_logprobs, label_probabilities
from tinsmith.training.policy import adam, step_metrics
from tinsmith.training.rollouts import WAIT_SECONDS
from tinsmith.training.settings import RlSettings
from tinsmith.training.study import Study


def update_exactly(
    trainer: tinker.TrainingClient,
    sampler: tinker.SamplingClient,
    study: Study,
    items: Sequence[Item],
    reward: Reward,
    settings: RlSettings,
) -> dict[str, float]:
    """Take one optimizer step on `items`; return metrics.

    Raises:
        TinkerError: the server failed.
    """
    labels = study.task.labels
    pi = label_probabilities(label_logprobs(sampler, study, items))
    table = reward.per_label()
    rewards = np.stack([table[labels.index(item.gold)] for item in items])
    expected = np.array([math.fsum(row) for row in (pi * rewards).tolist()], dtype=np.float64)
    weights = pi * (rewards - expected[:, None])
    datums = [
        answer_datum((*study.prompt(item), *study.label_tokens(label)), len(study.prompt(item)), w)
        for item, row in zip(items, weights.tolist(), strict=True)
        for label, w in zip(labels, row, strict=True)
    ]
    forward_backward = trainer.forward_backward(datums, "cross_entropy")
    step = trainer.optim_step(adam(settings))
    loss = forward_backward.result(WAIT_SECONDS).metrics["loss:sum"]
    reward.update_expected([item.gold for item in items], pi)
    told = step_metrics(settings, loss, step.result(WAIT_SECONDS))
    return {"train/reward/total": mean(expected), **told}
