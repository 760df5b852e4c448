"""What a run's reward makes optimal on its papers, told before the run: which classes its best policy would drop.

The posteriors are what the slice's own baseline tells of a paper: P(true label | what TF-IDF with metadata predicts),
one kind of paper for each prediction. A model that reads better than the baseline has sharper ones.
"""

from __future__ import annotations

import numpy as np

from tinsmith.analysis.posteriors import Posteriors
from tinsmith.analysis.rates import ClassMetric, Metric
from tinsmith.data.baseline_report import Baseline, BaselineScore, read_report
from tinsmith.data.slice_reader import Slice
from tinsmith.experiments.keys import Kind
from tinsmith.experiments.plan import Plan
from tinsmith.reports.optima import reward_optimum
from tinsmith.tasks.reward_registry import make_reward


def forecast(plan: Plan, source: Slice) -> list[str]:
    """Return lines for a person; none for SFT, or where the slice has no baselines for the task.

    Raises:
        DataError: the baselines are damaged.
    """
    score = _baseline(plan, source)
    if plan.frame.kind is not Kind.RL or score is None:
        return []
    optimum = reward_optimum(
        _posteriors(plan, score),
        lambda: make_reward(plan.on_papers.reward, plan.task, **plan.reward_settings),
    )
    shares = optimum.policy.class_score(ClassMetric.PREDICTED_SHARE)
    recalls = optimum.policy.class_score(ClassMetric.RECALL)
    told = ", ".join(
        f"{label} {share:.2f} (recall {recall:.2f})"
        for label, share, recall in zip(plan.task.labels, shares, recalls, strict=True)
    )
    lines = [
        f"what the reward {plan.on_papers.reward} makes optimal for a model that reads like {score.baseline.value}:",
        f"  shares {told}; macro-F1 {optimum.policy.score(Metric.MACRO_F1):.3f}",
    ]
    return lines + [f"  warning: {warning}" for warning in optimum.warnings()]


def _baseline(plan: Plan, source: Slice) -> BaselineScore | None:
    report = read_report(source.folder)
    targets = [] if report is None else report.targets
    wanted = Baseline.BOTH if plan.task.with_metadata else Baseline.TEXT
    return next(
        (
            score
            for target in targets
            if target.target == plan.task.name
            for score in target.scores
            if score.baseline is wanted
        ),
        None,
    )


def _posteriors(plan: Plan, score: BaselineScore) -> Posteriors:
    labels = plan.task.labels
    counts = np.array(
        [[score.confusion[gold][said] for gold in labels] for said in labels], dtype=np.float64
    )
    counts = counts[counts.sum(axis=1) > 0]
    totals = counts.sum(axis=1)
    return Posteriors.of(labels, counts / totals[:, None], totals)
