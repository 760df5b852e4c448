"""Serves requests under a load that comes and goes: how many at once, among which neighbours, in which order.

Who arrives when is drawn from the sweep's seed, so that a load can be had again; none of it may change an answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Group, Policy
from tinsmith.studies.bits.cells import Order
from tinsmith.types.datum import IntArray
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams
from tinsmith.types.seeds import derive, random_bits

_TURN = 1 / 16
"""Chance at a step that other limits are drawn."""

_NEIGHBOUR = 24
"""Most tokens of a neighbour's prompt, and of what is sampled for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Other work while a request is computed."""

    batch: int
    neighbours: int
    order: Order = Order.GIVEN


def serve(
    sampler: Sampler, policy: Policy, wanted: Sequence[SampleRequest], load: Load, *, seed: int
) -> list[SampleResult]:
    """Serve requests to the end, and return their results in the order given.

    How many are let in rises and falls: now and then both limits are drawn anew, up to `batch` and `neighbours`, few as
    often as many. A place that is free is taken with probability one half at every step: by the next request that
    waits, or by a neighbour of random length.
    """
    rng = np.random.default_rng(seed)
    waiting = _ordered(len(wanted), load.order, rng)
    groups: dict[int, Group] = {}
    others: list[Group] = []
    drawn, most = 0, (0, 0)
    while waiting or any(not group.ended for group in groups.values()):
        others = [group for group in others if not group.ended]
        if most == (0, 0) or rng.random() < _TURN:
            most = (_few_or_many(rng, load.batch), _few_or_many(rng, load.neighbours + 1) - 1)
        places = most[0] - sum(not group.ended for group in groups.values())
        coming = [True] * min(int(rng.binomial(max(places, 0), 0.5)), len(waiting))
        coming += [False] * int(rng.binomial(max(most[1] - len(others), 0), 0.5))
        if load.order is Order.REVERSED:
            coming.reverse()
        if load.order is Order.SHUFFLED:
            rng.shuffle(coming)
        for ours in coming:
            if ours:
                index = waiting.pop(0)
                groups[index] = sampler.submit(wanted[index], policy)
            else:
                request = _neighbour(rng, drawn, sampler.config.vocab_size)
                others.append(sampler.submit(request, policy))
                drawn += 1
        sampler.step()
    for group in others:
        sampler.cancel(group)
    results: list[SampleResult] = []
    for index in range(len(wanted)):
        group = groups[index]
        if group.failure is not None:
            raise group.failure
        assert group.result is not None
        results.append(group.result)
    return results


def random_tokens(seed: int, count: int, vocab_size: int) -> IntArray:
    """Draw token ids, the same on every machine."""
    return (random_bits(seed, count) % np.uint64(vocab_size)).astype(np.int32)


def _few_or_many(rng: np.random.Generator, most: int) -> int:
    """Draw from 1 to `most`, each power of two as likely as another."""
    return min(most, int(2.0 ** (rng.random() * math.log2(most + 1))))


def _ordered(count: int, order: Order, rng: np.random.Generator) -> list[int]:
    indices = list(range(count))
    if order is Order.REVERSED:
        indices.reverse()
    if order is Order.SHUFFLED:
        rng.shuffle(indices)
    return indices


def _neighbour(rng: np.random.Generator, number: int, vocab_size: int) -> SampleRequest:
    prompt, tokens = (int(length) for length in rng.integers(1, _NEIGHBOUR + 1, 2))
    seed = derive(0, "sweep", "neighbour", number)
    params = SamplingParams(seed=seed, max_tokens=tokens, stop=())
    return SampleRequest(prompt=random_tokens(seed, prompt, vocab_size), params=params)
