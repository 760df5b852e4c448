"""What a run's reward makes optimal on its papers, told before the run: which classes its best policy would drop.

The posteriors are what the slice's own baseline tells of a paper: P(true label | what TF-IDF with metadata predicts),
one kind of paper for each prediction. A model that reads better than the baseline has sharper ones.
"""

from __future__ import annotations

import numpy as np

from tinsmith.data.baselines.report import Baseline, BaselineScore, read_report
from tinsmith.data.slices.reader import Slice
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.labels.task import Task
from tinsmith.lab.papers.frame import on_papers, task_asked
from tinsmith.lab.rewards.optima import reward_optimum
from tinsmith.lab.rewards.registry import make_reward
from tinsmith.stats.incentives.posteriors import Posteriors
from tinsmith.stats.rates import ClassMetric, Metric


def forecast(plan: Plan, source: Slice) -> list[str]:
    """Return lines for a person; none for SFT, or where the slice has no baselines for the task."""
    if not plan.entry.named_reward:
        return []
    every = task_asked(plan).alone
    return [
        line if len(every) == 1 else f"{task.name}: {line}" for task in every for line in _forecast(task, plan, source)
    ]


def _forecast(task: Task, plan: Plan, source: Slice) -> list[str]:
    reward = on_papers(plan).reward
    score = _baseline(task, source)
    if score is None:
        return []
    optimum = reward_optimum(_posteriors(task, score), lambda: make_reward(reward, task, **plan.reward_settings))
    shares = optimum.policy.class_score(ClassMetric.PREDICTED_SHARE)
    recalls = optimum.policy.class_score(ClassMetric.RECALL)
    told = ", ".join(
        f"{label} {share:.2f} (recall {recall:.2f})"
        for label, share, recall in zip(task.labels, shares, recalls, strict=True)
    )
    lines = [
        f"the best policy under the reward {reward}, for a model that reads as well as {score.baseline.value}:",
        f"  shares {told}; macro-F1 {optimum.policy.score(Metric.MACRO_F1):.3f}",
    ]
    return lines + [f"  warning: {warning}" for warning in optimum.warnings()]


def _baseline(task: Task, source: Slice) -> BaselineScore | None:
    report = read_report(source.folder)
    targets = [] if report is None else report.targets
    wanted = Baseline.BOTH if task.with_metadata else Baseline.TEXT
    return next(
        (
            score
            for target in targets
            if target.target == task.name
            for score in target.scores
            if score.baseline is wanted
        ),
        None,
    )


def _posteriors(task: Task, score: BaselineScore) -> Posteriors:
    labels = task.labels
    counts = np.array([[score.confusion[gold][said] for gold in labels] for said in labels], dtype=np.float64)
    counts = counts[counts.sum(axis=1) > 0]
    totals = counts.sum(axis=1)
    return Posteriors.of(labels, counts / totals[:, None], totals)
