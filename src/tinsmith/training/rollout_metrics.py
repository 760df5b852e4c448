"""What is told of a step's rollouts: the metrics `train/...`, and the lines of `rollouts.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinsmith.tasks.contracts import Outcome
from tinsmith.training.grouping import Scored, ScoredGroup
from tinsmith.training.rollouts import Failure, Rollout

Line = dict[str, object]


def rollout_metrics(groups: Sequence[ScoredGroup], labels: Sequence[str]) -> dict[str, float]:
    """Return means over the rollouts that did not fail; a share of nothing is left out, not 0."""
    scored = [one for group in groups for one in group.scored]
    failed = sum(len(group.failures) for group in groups)
    metrics = {
        "train/rollouts/failed": float(failed),
        "train/groups/informative": _share(group.informative for group in groups),
        "train/groups/left_out": float(sum(not group.learned for group in groups)),
    }
    for label in labels:
        of_label = [group.informative for group in groups if group.gold == label]
        if of_label:
            metrics[f"train/groups/informative/{label}"] = _share(of_label)
    if scored:
        metrics |= _means(scored, labels)
    return metrics


def _means(scored: Sequence[Scored], labels: Sequence[str]) -> dict[str, float]:
    count = len(scored)
    metrics = {"train/reward/total": sum(one.terms.total for one in scored) / count}
    for name in scored[0].terms.names():
        metrics[f"train/reward/{name}"] = sum(getattr(one.terms, name) for one in scored) / count
    answers = [one.rollout.answer for one in scored]
    metrics["train/parse_ok"] = _share(answer.outcome is Outcome.OK for answer in answers)
    metrics["train/label_match"] = _share(
        one.rollout.answer.predicted == one.rollout.item.gold for one in scored
    )
    for label in labels:
        metrics[f"train/predicted_share/{label}"] = _share(a.predicted == label for a in answers)
    metrics["train/tokens/answer"] = sum(len(one.rollout.tokens) for one in scored) / count
    return metrics


def rollout_lines(step: int, groups: Sequence[ScoredGroup]) -> list[Line]:
    """Return one line for every rollout of a training step, in the order of prompts and samples."""
    lines: list[Line] = []
    for group in groups:
        for one in group.scored:
            terms = {name: getattr(one.terms, name) for name in one.terms.names()}
            reward = {"terms": terms, "total": one.terms.total, "advantage": one.advantage}
            lines.append({**answer_line(step, "train", one.rollout), **reward})
        lines += [failure_line(step, "train", failure) for failure in group.failures]
    return lines


def answer_line(step: int, split: str, rollout: Rollout) -> Line:
    """Return the line of a rollout without its reward."""
    return {
        "step": step,
        "split": split,
        "prompt_id": rollout.item.paper.id,
        "sample": rollout.sample,
        "tokens": list(rollout.tokens),
        "logprobs": list(rollout.logprobs),
        "text": rollout.text,
        "outcome": rollout.answer.outcome.value,
        "gold": rollout.item.gold,
        "predicted": rollout.answer.predicted,
        "confidence": rollout.answer.confidence,
    }


def failure_line(step: int, split: str, failure: Failure) -> Line:
    """Return the line of a rollout that failed: no reward, but the cause."""
    return {
        "step": step,
        "split": split,
        "prompt_id": failure.item.paper.id,
        "sample": failure.sample,
        "gold": failure.item.gold,
        "failure": {"where": failure.where, "what": failure.what},
    }


def _share(flags: Iterable[bool]) -> float:
    seen = list(flags)
    return sum(seen) / len(seen)
