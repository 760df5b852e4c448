"""Rollouts to datums, and groups of rollouts to advantages, with counts and reasons of exclusions.

Axes: a step has groups, a group has rollouts of one prompt. A failed rollout has no reward; a group with fewer than two
left cannot be compared and is left out, and counted. So is one whose rewards are all equal, where that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby, takewhile
from statistics import fmean
from typing import Generic

import numpy as np
import tinker
from tinker import types

from tinsmith.lab.rollouts import A, AnyRollout, Failure, Group, I, Rollout
from tinsmith.lab.user_task.step_reward import NamedTerms, rounded_sum
from tinsmith.ops.advantages import ADVANTAGES, Advantage
from tinsmith.ops.forks import turn_advantages
from tinsmith.stats.groups import chosen_groups, deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Demonstrated conversation for supervised training."""

    tokens: tuple[int, ...]
    learned: tuple[bool, ...]  # For every token whether it is an answer's; what answers reply to is only read.

    @classmethod
    def after(cls, prompt_length: int, tokens: Sequence[int]) -> Example:
        """Return the example of one prompt and one answer."""
        answer = len(tokens) - prompt_length
        return cls(tokens=tuple(tokens), learned=(False,) * prompt_length + (True,) * answer)


def policy_datum(rollout: AnyRollout, advantages: Sequence[Sequence[float]], foreseen: float = 0.0) -> tinker.Datum:
    """Return a datum of a policy-gradient loss: the advantage of each sampled token, 0 at all other tokens.

    With `foreseen` what the environment answered is learned too, each of its tokens with that weight: as an action of
    this advantage under the policy that read it. The ratio is 1, and so the gradient is that of weight * log p.
    """
    tokens: list[int] = []
    logprobs: list[float] = []
    advantage: list[float] = []
    for turn, values in zip(rollout.turns, advantages, strict=True):
        before = [0.0] * len(turn.observation)
        tokens += [*turn.observation, *turn.tokens]
        if foreseen and turn.observed:
            logprobs += [value if own else 0.0 for value, own in zip(turn.observed, turn.answered, strict=True)]
            advantage += [foreseen if own else 0.0 for own in turn.answered]
        else:
            logprobs += before
            advantage += before
        logprobs += turn.logprobs
        advantage += values
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": _integers(tokens[1:]),
            "logprobs": _floats(logprobs[1:]),
            "advantages": _floats(advantage[1:]),
        },
    )


def answered_logprobs(rollout: AnyRollout) -> list[float]:
    """Return the log-probabilities of the environment's tokens in a conversation."""
    return [value for turn in rollout.turns for value in compress(turn.observed, turn.answered)]


def known_logprobs(rollout: AnyRollout) -> tuple[list[float], list[bool]]:
    """Return the policy's log-probability of every token of a conversation, and a mask of its own tokens.

    It did of what it wrote, and of what the environment wrote where that was asked.
    """
    logprobs: list[float] = []
    known: list[bool] = []
    for turn in rollout.turns:
        size = len(turn.observation)
        logprobs += [*(turn.observed or (0.0,) * size), *turn.logprobs]
        known += [*(turn.answered if turn.observed else (False,) * size), *(True,) * len(turn.tokens)]
    return logprobs, known


def answer_datum(tokens: Sequence[int], prompt_length: int, weight: float) -> tinker.Datum:
    """Return a cross-entropy datum on the tokens after the prompt, with equal weights."""
    return example_datum(Example.after(prompt_length, tokens), weight)


def example_datum(example: Example, weight: float) -> tinker.Datum:
    """Return a cross-entropy datum on the answers of an example, with equal weights."""
    return types.Datum(
        model_input=types.ModelInput.from_ints(list(example.tokens[:-1])),
        loss_fn_inputs={
            "target_tokens": _integers(example.tokens[1:]),
            "weights": _floats([weight if mine else 0.0 for mine in example.learned[1:]]),
        },
    )


def shared_opening(sequences: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the tokens with which all sequences begin."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*sequences, strict=False))
    return tuple(column[0] for column in columns)


def _integers(values: Sequence[int]) -> types.TensorData:
    return types.TensorData.from_numpy(np.array(values, dtype=np.int64))


def _floats(values: Sequence[float]) -> types.TensorData:
    return types.TensorData.from_numpy(np.array(values, dtype=np.float32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored(Generic[I, A]):
    """A rollout with its reward, and its advantage over its group; None where the group was left out."""

    rollout: Rollout[I, A]
    terms: NamedTerms
    advantage: float | None
    by_turn: tuple[float, ...] | None = None
    """Advantage of each turn instead, where turns have advantages of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredGroup(Generic[I, A]):
    """Rollouts of one prompt, with rewards and advantages."""

    item: I
    scored: tuple[Scored[I, A], ...]
    failures: tuple[Failure[I], ...]
    informative: bool  # Whether its rewards differ: otherwise its gradient is zero.
    below: tuple[Scored[I, A], ...] = ()  # Rollouts that these spawned, each compared with all others of its depth.

    @property
    def every(self) -> tuple[Scored[I, A], ...]:
        """All rollouts, those that were spawned too."""
        return (*self.scored, *self.below)

    @property
    def compared(self) -> list[Scored[I, A]]:
        """The rollouts that are trained on."""
        return [one for one in self.every if one.advantage is not None]

    def drawn(self, samples: int) -> ScoredGroup[I, A]:
        """Return the group without what follows the `samples` that were drawn, as forced options do."""
        return replace(self, scored=tuple(one for one in self.scored if one.rollout.sample < samples))

    @property
    def learned(self) -> bool:
        """True if any of its rollouts is trained on."""
        return bool(self.compared)


def score_groups(
    groups: Sequence[Group[I, A]],
    score: Callable[[Sequence[Rollout[I, A]]], Sequence[NamedTerms]],
    *,
    advantage: Advantage,
    zero_variance_filter: bool,
    compared_by: Callable[[NamedTerms], float] | None = None,
    forks: int = 1,
) -> list[ScoredGroup[I, A]]:
    """Reward every rollout, and compute advantages within its group.

    `compared_by` says which part of a reward the advantages are made of (None: all of it), where someone else carries
    the gradient of the rest; which groups are informative is always told by the whole. Of several `forks` each turn has
    an advantage of its own; a first reply is sent with each, so that one with fewer, as it ended, weighs more.
    """
    by_depth = [_by_depth([one for one in group if isinstance(one, Rollout)]) for group in groups]
    terms = iter(score([one for depths in by_depth for rollouts in depths for one in rollouts]))
    scored_groups: list[ScoredGroup[I, A]] = []
    rules = advantage, zero_variance_filter, compared_by, forks
    for group, depths in zip(groups, by_depth, strict=True):
        roots, *below = [_compared(rollouts, [next(terms) for _ in rollouts], *rules) for rollouts in depths]
        scored_groups.append(
            ScoredGroup(
                item=group[0].item,
                scored=tuple(roots),
                failures=tuple(one for one in group if isinstance(one, Failure)),
                informative=any(_differ(one.terms for one in some) for some in (roots, *below)),
                below=tuple(one for some in below for one in some),
            )
        )
    return scored_groups


def _by_depth(roots: list[Rollout[I, A]]) -> list[list[Rollout[I, A]]]:
    found = [roots]
    for one in (one for root in roots for one in root.below()):
        while len(found) <= one.depth:
            found.append([])
        found[one.depth].append(one)
    return found


def left_out_by_spread(groups: Sequence[ScoredGroup[I, A]], top_p: float) -> list[ScoredGroup[I, A]]:
    """Return the groups, those of little spread without advantages: see `chosen_groups`."""
    rewards = [[one.terms.total for one in group.scored] for group in groups]
    every = [reward for some in rewards for reward in some]
    mask = chosen_groups(list(map(deviation, rewards)), top_p, max(every, default=0.0) - min(every, default=0.0))
    return [
        group
        if retained
        else replace(group, scored=tuple(map(_left_out, group.scored)), below=tuple(map(_left_out, group.below)))
        for group, retained in zip(groups, mask, strict=True)
    ]


def _left_out(one: Scored[I, A]) -> Scored[I, A]:
    return replace(one, advantage=None, by_turn=None)


def _differ(terms: Iterable[NamedTerms]) -> bool:
    """Return True if rewards differ by more than rounding: 0.1 + 0.2 is no other one than 0.3."""
    return len({rounded_sum(each.total) for each in terms}) > 1


def _compared(
    rollouts: list[Rollout[I, A]],
    terms: list[NamedTerms],
    advantage: Advantage,
    zero_variance_filter: bool,
    compared_by: Callable[[NamedTerms], float] | None,
    forks: int,
) -> list[Scored[I, A]]:
    advantages: list[float | None] = [None] * len(rollouts)
    turns: list[tuple[float, ...] | None] = [None] * len(rollouts)
    if len(rollouts) > 1 and (_differ(terms) or not zero_variance_filter):
        compared = np.array([compared_by(each) if compared_by else each.total for each in terms], dtype=np.float64)
        advantages = [float(value) for value in ADVANTAGES[advantage](compared)]
        if forks > 1:
            rows = [list(places) for _, places in groupby(range(len(rollouts)), lambda at: rollouts[at].sample)]
            found = turn_advantages([compared[row] for row in rows], advantage)
            turns = [
                (float(first) * (forks / len(row)), float(value) * (forks / len(row)))[: len(rollouts[at].turns)]
                for first, second, row in zip(found.first_F, found.second_FK, rows, strict=True)
                for value, at in zip(second, row, strict=True)  # forks of one first reply are adjacent
            ]
    return [
        Scored(rollout=one, terms=each, advantage=value, by_turn=by_turns)
        for one, each, value, by_turns in zip(rollouts, terms, advantages, turns, strict=True)
    ]


Line = dict[str, object]


def metric_means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every metric over those that have it."""
    names = sorted({name for one in found for name in one})
    return {name: fmean([one[name] for one in found if name in one]) for name in names}


def rollout_metrics(groups: Sequence[ScoredGroup[I, A]]) -> dict[str, float]:
    """Return means over the rollouts that did not fail."""
    scored = [one for group in groups for one in group.scored]
    failed = sum(len(group.failures) for group in groups)
    metrics = {
        "train/rollouts/failed": float(failed),
        "train/groups/informative": share(group.informative for group in groups),
        "train/groups/left_out": float(sum(not group.learned for group in groups)),
    }
    if scored:
        for name in ("total", *scored[0].terms.values):
            metrics[f"train/reward/{name}"] = sum(getattr(one.terms, name) for one in scored) / len(scored)
        metrics["train/tokens/answer"] = sum(len(one.rollout.tokens) for one in scored) / len(scored)
    return metrics


def share(flags: Iterable[bool]) -> float:
    """Return the share of true values, of one or more."""
    values = list(flags)
    return sum(values) / len(values)
