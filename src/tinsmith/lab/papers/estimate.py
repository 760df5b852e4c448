"""Forecast of a run on papers: tokens, time, and what its reward makes optimal there, told before it is run.

The posteriors are what the slice's own baseline tells of a paper: P(true label | what TF-IDF with metadata predicts),
one kind of paper for each prediction. A model that reads better than the baseline has sharper ones.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from tinsmith.data.baselines.report import Baseline, read_report
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.splits import Split
from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, Lengths, pace_of, run_seconds, time_and_disk
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.key_text import At
from tinsmith.lab.labels.rewards import make_reward, reward_optimum
from tinsmith.lab.labels.task import Task
from tinsmith.lab.papers.labels import on_papers, task_asked
from tinsmith.lab.settings import RlSettings, SftSettings
from tinsmith.stats.incentives.posteriors import Posteriors
from tinsmith.stats.rates import ClassMetric, Metric

PROMPT_TOKENS = {At.NANO: 150, At.SMALL: 237, At.SEED: 440}
"""Of a paper with the nano base's tokenizer and brief prompt, and with SmolLM2's and the short one; the source notes',
from their log."""
ANSWER_TOKENS = {At.NANO: 14, At.SMALL: 19, At.SEED: 40}
CHARACTERS_PER_TOKEN = {At.NANO: 3.75, At.SMALL: 4.3, At.SEED: 4.3}
"""Of titles and abstracts: with the nano base's tokenizer (high energy physics), and with large vocabularies."""
ASKING_TOKENS = {At.NANO: 25, At.SMALL: 80, At.SEED: 250}
"""Tokens that the prompt adds to them: brief, short, and a ladder's."""
TEST_ITEMS = 500  # Papers of a test split, where nothing limits it.


def forecast_lines(plan: Plan) -> list[str]:
    """Say how many tokens are trained on and looked at, and how long that takes."""
    settings = plan.settings
    length = _prompt_length(plan, None) + ANSWER_TOKENS[plan.frame.at]
    if isinstance(settings, RlSettings):
        a_step = settings.group_size * settings.groups_per_batch
    else:
        assert isinstance(settings, SftSettings)
        a_step = settings.batch_size
    evaluations = settings.steps // settings.eval_every + 1 if settings.eval_every else 1
    looked_at = 2 * evaluations * settings.eval_items + 4 * (settings.test_items or TEST_ITEMS)
    trained = settings.steps * a_step
    tokens = f"about {trained * length / 1e6:.1f} M tokens trained on, {looked_at * length / 1e6:.1f} M evaluated"
    return [f"{settings.steps} steps; {tokens}", f"time: {time_and_disk(minutes(plan), RUN_MEGABYTES)}"]


def minutes(plan: Plan, prompt_tokens: int | None = None) -> float | None:
    """Return how long a run on papers takes on two cores; None: nothing is known of the model.

    `prompt_tokens` is said where it is known that a paper is longer or shorter than PROMPT_TOKENS; those of a slice
    that is named are estimated from its text.
    """
    pace = pace_of(plan)
    if pace is None:
        return None
    lengths = Lengths(
        prompt=_prompt_length(plan, prompt_tokens),
        answer=min(ANSWER_TOKENS[plan.frame.at], plan.settings.max_tokens),
        labels=len(task_asked(plan).labels),
        examined=plan.settings.eval_items,
        tested=plan.settings.test_items or TEST_ITEMS,
    )
    return run_seconds(plan.settings, lengths, pace) / 60


def _prompt_length(plan: Plan, known: int | None) -> int:
    at, data = plan.frame.at, plan.circumstances.data
    if known is not None:
        return known
    return PROMPT_TOKENS[at] if data is None else _prompt_tokens(data, at)


@lru_cache
def _prompt_tokens(folder: Path, at: At) -> int:
    lengths = [len(row.title) + len(row.abstract or "") for row in Slice.open(folder).rows(Split.TRAIN)]
    return ASKING_TOKENS[at] + round(sum(lengths) / CHARACTERS_PER_TOKEN[at] / max(1, len(lengths)))


def best_policy_lines(plan: Plan, source: Slice) -> list[str]:
    """Return which classes the best policy would drop; nothing of SFT, or where the slice has no such baselines."""
    every = task_asked(plan).alone if plan.entry.named_reward else ()
    lines = [(task, line) for task in every for line in _best_policy(task, plan, source)]
    return [line if len(every) == 1 else f"{task.name}: {line}" for task, line in lines]


def _best_policy(task: Task, plan: Plan, source: Slice) -> list[str]:
    report, labels = read_report(source.folder), task.labels
    targets = [] if report is None else [one for one in report.targets if one.target == task.name]
    wanted = Baseline.BOTH if task.with_metadata else Baseline.TEXT
    score = next((one for target in targets for one in target.scores if one.baseline is wanted), None)
    if score is None:
        return []
    table = tuple(tuple(score.confusion[gold][said] for gold in labels) for said in labels)
    settings = tuple(sorted(plan.reward_settings.items()))
    return list(_optimum(task, on_papers(plan).reward, settings, wanted, table))


@cache
def _optimum(
    task: Task,
    reward: str,
    settings: tuple[tuple[str, float], ...],
    reader: Baseline,
    table: tuple[tuple[int, ...], ...],
) -> tuple[str, ...]:
    """Follow the reward once per process: it takes seconds, and a process's runs often share it."""
    labels, counts = task.labels, np.array(table, dtype=np.float64)
    counts = counts[counts.sum(axis=1) > 0]
    totals = counts.sum(axis=1)
    posteriors = Posteriors.of(labels, counts / totals[:, None], totals)
    optimum = reward_optimum(posteriors, lambda: make_reward(reward, task, **dict(settings)))
    shares, recalls = map(optimum.policy.class_score, (ClassMetric.PREDICTED_SHARE, ClassMetric.RECALL))
    told = ", ".join(
        f"{label} {share:.2f} (recall {recall:.2f})"
        for label, share, recall in zip(labels, shares, recalls, strict=True)
    )
    return (
        f"the best policy under the reward {reward}, for a model that reads as well as {reader.value}:",
        f"  shares {told}; macro-F1 {optimum.policy.score(Metric.MACRO_F1):.3f}",
        *(f"  warning: {warning}" for warning in optimum.warnings()),
    )
