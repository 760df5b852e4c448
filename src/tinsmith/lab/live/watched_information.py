"""`watch=mutual_information`: the N x N scores of answers after prompts under the policy, and what they say.

A request holds every answer after one prompt. A server that computes shared beginnings once reads each prompt once, and
not N times; the scores are the same bits either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import tinker

from tinsmith.lab.datums import answer_datum
from tinsmith.lab.rollouts import WAIT_SECONDS, AnyRollout
from tinsmith.stats.diagnostics.mutual_information import Floats, Information, information

PROMPTS: Final = 64
"""Most prompts, and answers, that are scored against each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Answers after prompts."""

    scores: Floats
    """(N, N): log-probability of answer i after prompt j, over its tokens."""
    lengths: tuple[int, ...]
    """Tokens of each answer."""


def cross_scores(
    trainer: tinker.TrainingClient, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> Scored:
    """Score every answer after every prompt, in tokens, under the trainer's weights of now; N x N forward passes."""
    pending = [
        trainer.forward([answer_datum([*prompt, *answer], len(prompt), 1.0) for answer in answers], "cross_entropy")
        for prompt in prompts
    ]
    columns: list[list[float]] = []
    for prompt, future in zip(prompts, pending, strict=True):
        outputs = future.result(WAIT_SECONDS).loss_fn_outputs
        told = [one["logprobs"].tolist()[len(prompt) - 1 :] for one in outputs]
        columns.append([math.fsum(values) for values in told])
    return Scored(scores=np.array(columns, np.float64).T, lengths=tuple(len(answer) for answer in answers))


def watched_information(trainer: tinker.TrainingClient, groups: Sequence[Sequence[AnyRollout]]) -> dict[str, float]:
    """Return `watch/...` of the first reply to each of at most 64 prompts; nothing where fewer than two answered.

    Args:
        trainer: the policy.
        groups: an evaluation's sampled answers, by item, without those that failed.
    """
    first = [group[0].turns[0] for group in groups if group][:PROMPTS]
    first = [turn for turn in first if turn.tokens]
    if len(first) < 2:
        return {}
    found = cross_scores(trainer, [turn.observation for turn in first], [turn.tokens for turn in first])
    whole, token = information(found.scores), information(found.scores, found.lengths)
    return {**_named("watch", whole), **_named("watch/token", token)}


def _named(prefix: str, found: Information) -> dict[str, float]:
    return {
        f"{prefix}/mutual_information": found.mutual,
        f"{prefix}/entropy_given_prompt": found.given,
        f"{prefix}/entropy": found.marginal,
        f"{prefix}/retrieval_accuracy": found.retrieval,
        f"{prefix}/mi_z_score": found.z_score,
    }
