"""Answers that a group holds whether or not the policy would draw them: each of an item's options, once.

Their log-probabilities are the policy's own of now, so that the ratio of trainer to sampler is 1 for them as for
what is sampled. Each option's advantage then counts alike, however unlikely the policy finds it. That is no estimate of
the policy gradient, which vanishes where one answer has all the probability; it is why they are forced.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import tinker
from tinker import types

from tinsmith.lab.environment import Environment
from tinsmith.lab.rollouts import WAIT_SECONDS, A, Failure, I, Rollout, Trajectory, Turn, Unread
from tinsmith.lab.service.official_client import text_logprobs
from tinsmith.lab.subject import Subject
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive


def force_options(
    client: tinker.SamplingClient,
    subject: Subject[I, A],
    groups: Sequence[Sequence[Rollout[I, A] | Failure[I]]],
    seed: int,
) -> list[list[Rollout[I, A] | Failure[I]]]:
    """Return the groups, each with its item's options behind what was sampled."""
    played = [one for place, group in enumerate(groups) for one in _played(subject, group, place, seed)]
    pending = [client.compute_logprobs(types.ModelInput.from_ints(one.sequence())) for one in played]
    scored = [_with_logprobs(one, future.result(WAIT_SECONDS)) for one, future in zip(played, pending, strict=True)]
    answers = iter(zip(scored, subject.read(scored), strict=True))
    return [[*group, *(_rollout(*next(answers)) for _ in subject.options(group[0].item))] for group in groups]


def _played(
    subject: Subject[I, A], group: Sequence[Rollout[I, A] | Failure[I]], place: int, seed: int
) -> list[Trajectory[I]]:
    """Let every option be said; what it would have been drawn with is not known yet."""
    item = group[0].item
    options = subject.options(item)
    if not options:
        raise ConfigError(
            "this item names no options that a group could be made to hold",
            field="force_options",
            value=True,
            fix="options=... in the task, a function of the item that returns every answer there is",
        )
    environments = subject.environments(item, len(options), derive(seed, "forced", place))
    return [
        _said(subject, each, item, tokens, len(group) + number)
        for number, (each, tokens) in enumerate(zip(environments, options, strict=True))
    ]


def _said(
    subject: Subject[I, A], environment: Environment, item: I, tokens: tuple[int, ...], sample: int
) -> Trajectory[I]:
    prompt = environment.first()
    if environment.step(tokens).observation() is not None:
        raise ConfigError(
            "an option is the whole answer, and this conversation goes on after it",
            field="force_options",
            value=True,
            allowed="false for this task",
        )
    turn = Turn(observation=prompt, tokens=tokens, logprobs=(0.0,) * len(tokens), text=subject.text(tokens))
    return Trajectory(item=item, sample=sample, turns=(turn,), environment=environment)


def _with_logprobs(one: Trajectory[I], told: Sequence[float | None]) -> Trajectory[I]:
    written = one.written()
    found = compress(text_logprobs(told, len(written)), written)
    (turn,) = one.turns
    scored = Turn(
        observation=turn.observation,
        tokens=turn.tokens,
        logprobs=tuple(value for value in found if value is not None),
        text=turn.text,
    )
    return Trajectory(item=one.item, sample=one.sample, turns=(scored,), environment=one.environment)


def _rollout(one: Trajectory[I], answer: A | Unread) -> Rollout[I, A] | Failure[I]:
    if isinstance(answer, Unread):
        return Failure(item=one.item, sample=one.sample, where=answer.where, what=answer.what)
    return Rollout(item=one.item, sample=one.sample, turns=one.turns, answer=answer)
