"""What `tinsmith analyse incentives` computes: every reward's optimum beside the best that can be had."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tinsmith.lab.labels.rewards import REWARDS, Reward, make_reward, reward_optimum
from tinsmith.lab.labels.task import TASKS, Task
from tinsmith.stats.incentives import (
    Optimum,
    Policy,
    Posteriors,
    Sensitivity,
    best_deterministic,
    best_policy,
    sensitivity,
    table_optimum,
)
from tinsmith.stats.rates import ClassMetric, FloatArray, Metric
from tinsmith.types.errors import ConfigError

WEIGHTS = (1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0)
_SHOWN_KINDS = 64
_PLAIN = "strong"


@dataclass(frozen=True, slots=True)
class Survey:
    """Rewards, the best policies for the scores themselves, and class weights."""

    rewards: tuple[tuple[str, Optimum], ...]  # By name.
    best: tuple[tuple[str, Policy], ...]
    turning_of: str  # The reward whose class weights are turned.
    turning: Sequence[tuple[Sensitivity, tuple[float, ...]]]
    """Each label's share of the optimum, and the macro-F1 at each of WEIGHTS, by its class weight."""


def survey(
    posteriors: Posteriors, names: tuple[str, ...], matrix: FloatArray | None, settings: Mapping[str, object]
) -> Survey:
    """Analyse the named rewards (default: all), or one table."""
    if matrix is not None:
        rewards = (("matrix", table_optimum(posteriors, matrix)),)
    else:
        task = _task(posteriors)
        if settings and len(names) != 1:
            allowed = "exactly one --reward with --set or --class-weight"
            raise ConfigError("settings belong to one reward", field="--reward", value=names, allowed=allowed)
        rewards = tuple(
            (name, reward_optimum(posteriors, _maker(name, task, posteriors, settings))) for name in names or REWARDS
        )
    tables = {name: optimum for name, optimum in rewards if not optimum.reacts}
    plain = _PLAIN if _PLAIN in tables else next(iter(tables), "")
    turning = _turning(posteriors, tables[plain].matrix) if plain else ()
    return Survey(rewards, _best(posteriors), plain, turning)


def survey_json(posteriors: Posteriors, found: Survey) -> str:
    """Return the survey as JSON; policies are listed where there are at most 64 kinds of papers."""
    labels = posteriors.labels
    return json.dumps(
        {
            "labels": labels,
            "kinds": posteriors.num_kinds,
            "prior": dict(zip(labels, posteriors.prior.tolist(), strict=True)),
            "rewards": [
                {
                    "name": name,
                    **_scores(one.policy),
                    "greedy": _scores(one.greedy),
                    "reward": one.reward,
                    "gap": one.gap,
                    "dead": one.dead,
                    "ruling": one.ruling,
                    "resting_collapses": one.resting_collapses,
                    "other_rests": [_scores(other) for other in one.others],
                    "warnings": one.warnings(),
                }
                for name, one in found.rewards
            ],
            "best": [{"name": name, **_scores(policy)} for name, policy in found.best],
            "class_weights": [
                {
                    "reward": found.turning_of,
                    "label": turns.label,
                    "window": [_finite(end) for end in turns.window],
                    "weights": WEIGHTS,
                    "predicted_share": [turns.share_at(w) for w in WEIGHTS],
                    "macro_f1": macro_f1,
                }
                for turns, macro_f1 in found.turning
            ],
        },
        indent=2,
    )


def _task(posteriors: Posteriors) -> Task:
    for task in TASKS.values():
        if task.labels == posteriors.labels:
            return task
    what = "rewards with a name are only defined for a task's labels"
    allowed = "; ".join(", ".join(task.labels) for task in TASKS.values())
    fix = "give the reward as a table: --matrix FILE.json"
    raise ConfigError(what, field="labels", value=posteriors.labels, allowed=allowed, fix=fix)


def _maker(name: str, task: Task, posteriors: Posteriors, settings: Mapping[str, object]) -> Callable[[], Reward]:
    """Return how to make a reward; one that needs the labels' frequencies gets the posteriors'."""
    given = dict(settings)
    if name in REWARDS and "prior" in REWARDS[name].settings:
        prior = posteriors.prior.tolist()
        given["prior"] = dict(zip(posteriors.labels, prior, strict=True))
    return lambda: make_reward(name, task, **given)


def _best(posteriors: Posteriors) -> tuple[tuple[str, Policy], ...]:
    rules = {
        metric: best_deterministic(posteriors, metric)
        for metric in (Metric.MACRO_F1, Metric.MIN_CLASS_RECALL, Metric.G_MEAN)
    }
    return (
        ("highest accuracy", best_policy(posteriors, Metric.LABEL_MATCH)),
        *((f"highest {one.value}", best_policy(posteriors, one)) for one in (Metric.MACRO_F1, Metric.G_MEAN)),
        *((f"{metric.value}, plain rule", rule) for metric, rule in rules.items() if rule is not None),
    )


def _turning(posteriors: Posteriors, matrix: FloatArray) -> list[tuple[Sensitivity, tuple[float, ...]]]:
    found: list[tuple[Sensitivity, tuple[float, ...]]] = []
    for y, label in enumerate(posteriors.labels):
        turns = sensitivity(posteriors, matrix, label)
        if turns is None:
            continue
        scores: list[float] = []
        for weight in WEIGHTS:
            weighted = matrix.copy()
            weighted[y] *= weight
            scores.append(table_optimum(posteriors, weighted).policy.score(Metric.MACRO_F1))
        found.append((turns, tuple(scores)))
    return found


def _scores(policy: Policy) -> dict[str, object]:
    def by_label(metric: ClassMetric) -> dict[str, float | None]:
        values = policy.class_score(metric).tolist()
        return {label: _finite(value) for label, value in zip(policy.labels, values, strict=True)}

    scores: dict[str, object] = {
        "accuracy": policy.score(Metric.LABEL_MATCH),
        "macro_f1": policy.score(Metric.MACRO_F1),
        "min_class_recall": policy.score(Metric.MIN_CLASS_RECALL),
        "recall": by_label(ClassMetric.RECALL),
        "predicted_share": by_label(ClassMetric.PREDICTED_SHARE),
    }
    if len(policy.probabilities) <= _SHOWN_KINDS:
        scores["policy"] = policy.probabilities.tolist()
    return scores


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
