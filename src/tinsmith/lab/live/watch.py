"""Monitoring of a policy in training: alarms, checkpoint scores, information, and experts of a mixture.

With `watch=mutual_information` answers are scored after every prompt. A request holds every answer after one prompt: a
server that computes shared beginnings once reads each prompt once, and not N times; the bits are the same either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic

import numpy as np
import tinker

from tinsmith.lab.grouping import ScoredGroup, answer_datum
from tinsmith.lab.live.progress import Progress, silent
from tinsmith.lab.rollouts import WAIT_SECONDS, A, AnyRollout, Failure, I, Rollout, Sampler
from tinsmith.lab.runs.records import Score
from tinsmith.stats.information import Floats, information
from tinsmith.stats.monitors import Alarm, ExpertMonitor, ResponseMonitor


@dataclass(frozen=True, slots=True, kw_only=True)
class Examinee:
    """Policy under evaluation during training."""

    client: tinker.SamplingClient
    trainer: tinker.TrainingClient
    base: Callable[[], tinker.SamplingClient]  # The model under the adapter.
    step: int
    policy: Sampler | None = None  # The clients of all agents, where there are several; None: the client.
    progress: Progress = silent  # Is told how the answers come in.


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Meaning of an evaluation."""

    score: Score
    alarms: Sequence[Alarm] = ()
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])  # What was found out for it.


@dataclass(slots=True)
class Watch(Generic[I, A]):
    """Watch on free responses or on nothing; the last policy is the best."""

    monitor: ResponseMonitor | None = field(default=None, kw_only=True)
    """Monitor of repeated texts and failed answers; None for no monitor."""

    selects_by: ClassVar[str] = ""
    """Figure that the best policy is chosen by; empty: that of the setting `select_by`."""

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Every alarm so far, oldest first."""
        return () if self.monitor is None else self.monitor.alarms

    def observe(self, step: int, groups: Sequence[ScoredGroup[I, A]]) -> Sequence[Alarm]:
        """Observe a training step; return the alarms that it raises."""
        del step, groups
        return ()

    def judge(
        self, policy: Examinee, groups: Sequence[Sequence[Rollout[I, A] | Failure[I]]], metrics: Mapping[str, float]
    ) -> Judged:
        """Observe an evaluation: the sampled answers to each item, and all answers' metrics."""
        begun: Sequence[Alarm] = ()
        if self.monitor is not None:
            begun = self.monitor.observe(
                policy.step,
                [(one.item.prompt_id, one.text) for group in groups for one in group if isinstance(one, Rollout)],
                judge_failed=metrics.get("eval/judge_failed", 0.0),
                failed=metrics.get("eval/failed", 0.0),
            )
        return Judged(score=Score(float(policy.step), 0.0), alarms=begun)

    def state(self) -> object:
        """Return the state for resuming a run, as plain JSON values."""
        return None if self.monitor is None else self.monitor.state()

    def restore(self, state: object) -> None:
        """Restore the state from `state`."""
        if self.monitor is not None:
            self.monitor.restore(state)


PROMPTS: Final = 64  # Most prompts, and answers, that are scored against each other.


def cross_scores(
    trainer: tinker.TrainingClient, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> Floats:
    """Score every answer after every prompt, in tokens, under the trainer's weights of now; N x N forward passes.

    Returns:
        (N, N): log-probability of answer i after prompt j, over its tokens.
    """
    pending = [
        trainer.forward([answer_datum([*prompt, *answer], len(prompt), 1.0) for answer in answers], "cross_entropy")
        for prompt in prompts
    ]
    columns: list[list[float]] = []
    for prompt, future in zip(prompts, pending, strict=True):
        outputs = future.result(WAIT_SECONDS).loss_fn_outputs
        logprobs = [one["logprobs"].tolist()[len(prompt) - 1 :] for one in outputs]
        columns.append([math.fsum(values) for values in logprobs])
    return np.array(columns, np.float64).T


def watched_information(trainer: tinker.TrainingClient, groups: Sequence[Sequence[AnyRollout]]) -> dict[str, float]:
    """Return `watch/...` metrics of the first reply to at most 64 prompts; empty with fewer than two answers."""
    first = [group[0].turns[0] for group in groups if group][:PROMPTS]
    first = [turn for turn in first if turn.tokens]
    if len(first) < 2:
        return {}
    scores = cross_scores(trainer, [turn.observation for turn in first], [turn.tokens for turn in first])
    found = {f"watch/{name}": value for name, value in information(scores).items()}
    by_token = information(scores, [len(turn.tokens) for turn in first])
    return found | {f"watch/token/{name}": value for name, value in by_token.items()}


WITH_TOKENS = "moe/frac_with_tokens"
_REPORTED = {
    "e_frac_with_tokens:mean": WITH_TOKENS,
    "e_frac_oversubscribed:mean": "moe/frac_oversubscribed",
    "e_max_violation:mean": "moe/max_violation",
    "e_max_violation:max": "moe/max_violation_of_a_layer",
    "e_min_violation:mean": "moe/min_violation",
    "e_router_entropy:mean": "moe/router_entropy",
}
_LOAD = "e_tokens/"


def expert_metrics(reported: Mapping[str, float]) -> dict[str, float]:
    """Return metrics `moe/...` from a loss's metrics; empty for a dense model.

    The Tinker SDK names the first five (types.ForwardBackwardOutput.metrics); `moe/router_entropy` is a share of that
    of equal probabilities, and `moe/tokens/LAYER/EXPERT` a load, told of models with few experts.
    """
    found = {ours: reported[theirs] for theirs, ours in _REPORTED.items() if theirs in reported}
    for name in sorted(reported):
        if name.startswith(_LOAD):
            found["moe/tokens/" + name.removeprefix(_LOAD).removesuffix(":sum")] = reported[name]
    return found


def route_metrics(reported: Mapping[str, float]) -> dict[str, float]:
    """Return the number of trained tokens that the sampler routed to other experts, and that of all compared."""
    names = {"optim/unequal_routes": "e_unequal_routes:sum", "optim/compared_routes": "e_compared_routes:sum"}
    return {ours: reported[theirs] for ours, theirs in names.items() if theirs in reported}


class ExpertWatch(ExpertMonitor):
    """Looks at the metrics of a run's steps, in their order."""

    def observe_metrics(self, step: int, metrics: Mapping[str, float]) -> list[Alarm]:
        """Observe a training step; return the alarms that it raises."""
        share = metrics.get(WITH_TOKENS)
        return [] if share is None else self.observe(step, 1.0 - share)

    def restore(self, lines: Iterable[Mapping[str, object]]) -> None:
        """Restore the state from a run's metrics so far."""
        for line in lines:
            step, share = line.get("step"), line.get(WITH_TOKENS)
            if isinstance(step, int) and isinstance(share, float):
                self.observe(step, 1.0 - share)
