"""Confidence of a policy in an answer after each part of its reasoning: exact probabilities of all answers there are.

A reply's reasoning is cut at six fractions, and each of the item's answers is put behind every cut; their
log-probabilities, under the policy of now and at temperature 1, are one forward pass that shares its beginnings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import tinker

from tinsmith.lab.grouping import Scored, ScoredGroup, answer_datum, shared_opening
from tinsmith.lab.rollouts import WAIT_SECONDS, A, AnyRollout, I
from tinsmith.lab.settings import Prefixes
from tinsmith.lab.subject import Probe, Subject
from tinsmith.ops.confidence import FRACTIONS, forced_choice, premature, self_certainty
from tinsmith.stats.evaluation import spearman
from tinsmith.types.seeds import derive

WATCHED = 48  # Most replies that an evaluation probes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """A policy's confidence after each fraction of one reply's reasoning."""

    gold: tuple[float, ...]  # c(f): the probability of the right answer.
    answered: tuple[float, ...] | None  # Of the answer that the reply came to; None: it came to none that there is.
    certainty: tuple[float, ...]  # KL(U || p) over the answers.
    tokens_sent: int  # Positions of all sequences that were scored.
    tokens_computed: int  # The same with shared beginnings counted once, as a server computes them that shares them.

    @property
    def rho(self) -> float:
        """Spearman's correlation of the fraction and c."""
        return spearman(FRACTIONS, self.gold)


def probe_replies(
    trainer: tinker.TrainingClient, probes: Sequence[Probe], prefixes: Prefixes = Prefixes.OWN, seed: int = 0
) -> list[Confidence]:
    """Probe replies; all fractions and answers of one reply are one request."""
    if prefixes is Prefixes.FOREIGN:
        probes = _exchanged(probes)
    pending = [
        trainer.forward(
            [answer_datum([*start, *one], len(start), 1.0) for start, one in _texts(probe)], "cross_entropy"
        )
        for probe in probes
    ]
    confidences: list[Confidence] = []
    for place, (probe, future) in enumerate(zip(probes, pending, strict=True)):
        texts = list(_texts(probe))
        outputs = future.result(WAIT_SECONDS).loss_fn_outputs
        logprobs = [
            math.fsum(one["logprobs"].tolist()[len(start) - 1 :])
            for (start, _), one in zip(texts, outputs, strict=True)
        ]
        table = np.array(logprobs, np.float64).reshape(len(FRACTIONS), -1)
        order = list(range(len(FRACTIONS)))
        if prefixes is Prefixes.SHUFFLED:
            Random(derive(seed, "prefixes", place)).shuffle(order)
        shares = [forced_choice(row) for row in table[order]]
        sequences = [(*start, *one) for start, one in texts]
        confidences.append(
            Confidence(
                gold=tuple(float(one[probe.gold]) for one in shares),
                answered=None if probe.answered is None else tuple(float(one[probe.answered]) for one in shares),
                certainty=tuple(self_certainty(one) for one in shares),
                tokens_sent=sum(map(len, sequences)),
                tokens_computed=shared_positions(sequences),
            )
        )
    return confidences


def shared_positions(sequences: Sequence[Sequence[int]]) -> int:
    """Return the number of positions of sequences, counting shared prefixes once.

    >>> shared_positions([(1, 2, 3), (1, 2, 4), (1, 5)])
    5
    """
    ordered = sorted(map(tuple, sequences))
    shared = sum(len(shared_opening([one, after])) for one, after in pairwise(ordered))
    return sum(map(len, ordered)) - shared


def shaped_groups(
    trainer: tinker.TrainingClient,
    subject: Subject[I, A],
    groups: Sequence[ScoredGroup[I, A]],
    *,
    penalty: float,
    prefixes: Prefixes,
    seed: int,
) -> tuple[list[ScoredGroup[I, A]], dict[str, float]]:
    """Subtract `penalty` times <c, w> from each advantage; return the groups and metrics of the confidences."""
    compared = [one for group in groups for one in group.compared]
    if not compared:
        return list(groups), {}
    probed = probe_replies(trainer, [subject.probe(one.rollout) for one in compared], prefixes, seed)
    costs = {id(one): penalty * premature(each.gold) for one, each in zip(compared, probed, strict=True)}

    def shape(scored: Scored[I, A]) -> Scored[I, A]:
        return scored if scored.advantage is None else replace(scored, advantage=scored.advantage - costs[id(scored)])

    return [replace(group, scored=tuple(map(shape, group.scored))) for group in groups], {
        "train/confidence/penalty": fmean(list(costs.values())),
        "train/confidence/rho": fmean([one.rho for one in probed]),
        "train/confidence/tokens_sent": float(sum(one.tokens_sent for one in probed)),
        "train/confidence/tokens_computed": float(sum(one.tokens_computed for one in probed)),
    }


def watched_confidence(
    trainer: tinker.TrainingClient, subject: Subject[I, Any], groups: Sequence[Sequence[AnyRollout]], seed: int
) -> dict[str, float]:
    """Return `watch/confidence...` of the first reply to each of at most 48 prompts, with both controls."""
    probes = [subject.probe(group[0]) for group in groups if group][:WATCHED]
    if not probes:
        return {}
    own = probe_replies(trainer, probes)
    answered = [one.answered for one in own if one.answered is not None]
    metrics = {
        "watch/confidence/rho": fmean([one.rho for one in own]),
        "watch/confidence/answered": len(answered) / len(probes),
    }
    for place, fraction in enumerate(FRACTIONS):
        at = f"{fraction:.1f}"
        metrics[f"watch/confidence/gold_{at}"] = fmean([one.gold[place] for one in own])
        metrics[f"watch/confidence/certainty_{at}"] = fmean([one.certainty[place] for one in own])
        if answered:
            metrics[f"watch/confidence/said_{at}"] = fmean([one[place] for one in answered])
    if answered:
        metrics["watch/confidence/rho_said"] = fmean([spearman(FRACTIONS, one) for one in answered])
    for prefixes in (Prefixes.SHUFFLED, Prefixes.FOREIGN):
        control = probe_replies(trainer, probes, prefixes, seed)
        metrics[f"watch/confidence/rho_{prefixes}"] = fmean([one.rho for one in control])
    return metrics


def _texts(probe: Probe) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return pairs of prefix and forced answer, by fraction, then by answer."""
    length = len(probe.reasoning)
    return [
        ((*probe.prompt, *probe.reasoning[: math.floor(fraction * length)]), answer)
        for fraction in FRACTIONS
        for answer in probe.answers
    ]


def _exchanged(probes: Sequence[Probe]) -> list[Probe]:
    """Replace each reply's reasoning by that of the next reply to another prompt, if there is one."""
    count = len(probes)
    found: list[Probe] = []
    for place, one in enumerate(probes):
        others = (probes[(place + ahead) % count] for ahead in range(1, count))
        other = next((each for each in others if each.prompt != one.prompt), one)
        found.append(replace(one, reasoning=other.reasoning))
    return found
