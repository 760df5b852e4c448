"""What is told of a step's rollouts: the metrics `train/...`, and the lines of `rollouts.jsonl`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.rollouts import A, Failure, I, Rollout

Line = dict[str, object]


def rollout_metrics(groups: Sequence[ScoredGroup[I, A]]) -> dict[str, float]:
    """Return means over the rollouts that did not fail; a share of nothing is left out, not 0."""
    scored = [one for group in groups for one in group.scored]
    failed = sum(len(group.failures) for group in groups)
    metrics = {
        "train/rollouts/failed": float(failed),
        "train/groups/informative": share(group.informative for group in groups),
        "train/groups/left_out": float(sum(not group.learned for group in groups)),
    }
    if scored:
        count = len(scored)
        metrics["train/reward/total"] = sum(one.terms.total for one in scored) / count
        for name in scored[0].terms.names():
            mean = sum(getattr(one.terms, name) for one in scored) / count
            metrics[f"train/reward/{name}"] = mean
        metrics["train/tokens/answer"] = sum(len(one.rollout.tokens) for one in scored) / count
    return metrics


def answer_line(step: int, split: str, rollout: Rollout[I, A], facts: Line) -> Line:
    """Return the line of a rollout without its reward; `facts` are what its course says of it."""
    return {
        "step": step,
        "split": split,
        "prompt_id": rollout.item.prompt_id,
        "sample": rollout.sample,
        "tokens": list(rollout.tokens),
        "logprobs": list(rollout.logprobs),
        "text": rollout.text,
        **facts,
    }


def failure_line(step: int, split: str, failure: Failure[I], facts: Line) -> Line:
    """Return the line of a rollout that failed: no reward, but the cause."""
    return {
        "step": step,
        "split": split,
        "prompt_id": failure.item.prompt_id,
        "sample": failure.sample,
        **facts,
        "failure": {"where": failure.where, "what": failure.what},
    }


def examined_lines(
    step: int,
    split: str,
    answers: Sequence[Rollout[I, A] | Failure[I]],
    facts: Callable[[Rollout[I, A]], Line],
    item_facts: Callable[[I], Line],
) -> list[Line]:
    """Return a line for each of an examination's rollouts, and for each that failed, in their order."""
    return [
        failure_line(step, split, one, item_facts(one.item))
        if isinstance(one, Failure)
        else answer_line(step, split, one, facts(one))
        for one in answers
    ]


def share(flags: Iterable[bool]) -> float:
    """Return how many are true, of one or more."""
    seen = list(flags)
    return sum(seen) / len(seen)
