"""Rollouts: groups of answers to one prompt, sampled through the Tinker API and read by the contract.

A rollout that fails is kept as what it is, a failure with its cause; nobody gives it a reward. Where every rollout of a
step fails the server is lost, and the run stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tinker
from tinker import types

from tinsmith.tasks.contracts import Answer
from tinsmith.tasks.paper import Item
from tinsmith.training.study import Study
from tinsmith.types.errors import BackendError
from tinsmith.types.seeds import derive

SEED_BITS = 31
"""Other Tinker servers keep a seed in 32 bits with a sign."""

WAIT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One answer."""

    item: Item
    sample: int
    """Its place in the group."""
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Of the tokens, under the policy that drew them."""
    text: str
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A rollout that came to nothing."""

    item: Item
    sample: int
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a group is drawn."""

    samples: int
    max_tokens: int
    temperature: float
    seed: int
    """The root of the group's seeds: a group's own is derived from it and its place."""


def sample_groups(
    client: tinker.SamplingClient, study: Study, items: Sequence[Item], sampling: Sampling
) -> list[list[Rollout | Failure]]:
    """Sample a group for every item, all at once; the order is that of the items, however they come back.

    Raises:
        BackendError: every one of them failed.
        DataError: a prompt leaks.
    """
    prompts = [study.prompt(item) for item in items]
    pending = [
        client.sample(
            types.ModelInput.from_ints(list(prompt)),
            sampling.samples,
            types.SamplingParams(
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                seed=derive(sampling.seed, "group", place) % 2**SEED_BITS,
                stop=list(study.renderer.stop_sequences()),
            ),
        )
        for place, prompt in enumerate(prompts)
    ]
    groups = [
        _collect(study, item, prompt, future, sampling.samples)
        for item, prompt, future in zip(items, prompts, pending, strict=True)
    ]
    failures = [one for group in groups for one in group if isinstance(one, Failure)]
    if failures and len(failures) == sum(len(group) for group in groups):
        raise BackendError(f"every rollout failed; the first: {failures[0].what}")
    return groups


def _collect(
    study: Study,
    item: Item,
    prompt: tuple[int, ...],
    future: tinker.APIFuture[types.SampleResponse],
    samples: int,
) -> list[Rollout | Failure]:
    try:
        sequences = future.result(WAIT_SECONDS).sequences
    except (
        Exception
    ) as error:  # the boundary of a rollout: what failed is recorded, and is no reward
        what = f"{type(error).__name__}: {error}"
        return [Failure(item=item, sample=i, where="sample", what=what) for i in range(samples)]
    return [_rollout(study, item, prompt, i, sequence) for i, sequence in enumerate(sequences)]


def _rollout(
    study: Study, item: Item, prompt: tuple[int, ...], i: int, sequence: types.SampledSequence
) -> Rollout | Failure:
    logprobs = sequence.logprobs
    if logprobs is None or len(logprobs) != len(sequence.tokens):
        return Failure(
            item=item, sample=i, where="sample", what="the server gave no log-probabilities"
        )
    text = study.renderer.parse_response(sequence.tokens).message.content
    return Rollout(
        item=item,
        sample=i,
        prompt=prompt,
        tokens=tuple(sequence.tokens),
        logprobs=tuple(logprobs),
        text=text,
        answer=study.task.contract.parse(text),
    )
