"""Subject of a run: interface between the laboratory and items, conversations and rewards.

Its own part is to say:

1. which items a split has                        `items`
2. what an item asks, as environments             `environments`, with `stop` and `text` for the model's tokens
3. what was answered, a step's answers together   `read`
4. what that earns, as named terms                `score`
5. figures of answers, for metrics and pages      `figures`, `train_figures`, and `facts` of a single one
6. sections of its page                           `sections`

What else stands here has an answer that does for most. Groups, advantages, updates, evaluation, alarms, the choice of a
policy and resuming are the laboratory's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Protocol

import tinker

from tinsmith.data.slices.splits import Split
from tinsmith.lab.grouping import Example, Line, ScoredGroup
from tinsmith.lab.rollouts import (
    A,
    Environments,
    Failure,
    Group,
    I,
    Rollout,
    Sampling,
    Trajectory,
    Turn,
    log_probs,
    sample_groups,
)
from tinsmith.lab.runs.records import SectionRecord
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Reply in tokens, split for probing confidence."""

    prompt: tuple[int, ...]
    reasoning: tuple[int, ...]  # All before the answer begins; the whole reply where none does.
    answers: tuple[tuple[int, ...], ...]  # Every answer that there is, from what introduces it to what ends the reply.
    gold: int  # The place of the right one.
    answered: int | None  # The place of the reply's own; None: it has none, or another.


class Subject(Environments[I, A], Protocol[I, A]):
    """Items, conversations and rewards of a run, as the loop uses them."""

    def items(self, split: Split) -> Sequence[I]:
        """Return a split's items.

        A policy is evaluated on those of validation while it is trained, and once on those of the test, if there are
        any.
        """
        ...

    def unit(self, item: I) -> str:
        """Return an item's unit: items of one unit are always selected together."""
        return item.prompt_id

    def aside(self, item: I) -> bool:
        """Return True if an item belongs to separate batches, as `interleave` requests them."""
        del item
        return False

    def score(self, rollouts: Sequence[Rollout[I, A]]) -> Sequence[NamedTerms]:
        """Return each rollout's reward by the state before this step; then update the state."""
        ...

    def figures(self, groups: Sequence[Group[I, A]], split: str) -> Mapping[str, float]:
        """Return the metrics of an evaluation from the answers to each item, as `SPLIT/...`."""
        ...

    def train_figures(self, groups: Sequence[ScoredGroup[I, A]]) -> Mapping[str, float]:
        """Return further metrics of a training step, as `train/...`."""
        ...

    def facts(self, rollout: Rollout[I, A]) -> Line:
        """Return the answer's fields in a rollout's line."""
        ...

    def item_facts(self, item: I) -> Line:
        """Return the item's fields in a failed rollout's line."""
        del item
        return {}

    def sections(self, rollouts: Mapping[str, Sequence[Rollout[I, A]]]) -> Sequence[SectionRecord]:
        """Return sections of the page, from the answers of the test by split, or of the last evaluation."""
        del rollouts
        return ()

    def example(self, item: I) -> Example:
        """Return the supervised example of an item: the prompt and its right answer, or a whole conversation."""
        raise ConfigError("this task has no right answers", field="item", value=item.prompt_id)

    def example_figures(self, examples: Sequence[Example]) -> Mapping[str, float]:
        """Return the metrics of a supervised step, as `train/...`."""
        del examples
        return {}

    def options(self, item: I) -> Sequence[tuple[int, ...]]:
        """Return every possible answer to an item, as the tokens of a reply; empty if unknown."""
        del item
        return ()

    def probe(self, rollout: Rollout[I, A]) -> Probe:
        """Return a reply split into reasoning and answer, for probing confidence."""
        what = "this task does not say where its reasoning ends, or list its possible answers"
        fix = "watch=none and confidence_penalty=0, or probed=... in a task of your own"
        raise ConfigError(what, field="confidence", value=rollout.item.prompt_id, fix=fix)

    def trace(self) -> Mapping[str, float]:
        """Return metrics of the rewards' state after a step."""
        return {}

    def state(self) -> object:
        """Return the rewards' state for resuming a run, as plain JSON values."""
        return None

    def restore(self, state: object) -> None:
        """Restore the state from `state`."""
        del state

    def close(self) -> None:
        """Release resources at the end of a run, or after its failure."""
        return


def line_of(subject: Subject[I, A], step: int, split: str, rollout: Rollout[I, A] | Failure[I]) -> Line:
    """Return the line of a rollout without its reward; for a failed one, with the cause."""
    line: Line = {"step": step, "split": split, "prompt_id": rollout.item.prompt_id, "sample": rollout.sample}
    if isinstance(rollout, Failure):
        return {**line, **subject.item_facts(rollout.item), "failure": {"where": rollout.where, "what": rollout.what}}
    reply = {"tokens": list(rollout.tokens), "logprobs": list(rollout.logprobs), "text": rollout.text}
    return {**line, **reply, **subject.facts(rollout)}


def force_options(
    client: tinker.SamplingClient, subject: Subject[I, A], items: Sequence[I], sampling: Sampling
) -> list[list[Rollout[I, A] | Failure[I]]]:
    """Sample groups, each with its item's options appended: as one group, read at once."""

    def options() -> list[list[Trajectory[I]]]:
        groups = [_played(subject, item, place, sampling) for place, item in enumerate(items)]
        logprobs = iter(log_probs(client, [one.sequence() for group in groups for one in group]))
        return [[_with_logprobs(one, next(logprobs)) for one in group] for group in groups]

    return sample_groups(client, subject, items, sampling, options)


def _played(subject: Subject[I, A], item: I, place: int, sampling: Sampling) -> list[Trajectory[I]]:
    """Return rollouts of all options; their sampling log-probabilities are still unknown."""
    options = subject.options(item)
    if not options:
        what = "this item lists no options to add to its group"
        fix = "options=... in the task, a function of the item that returns every answer there is"
        raise ConfigError(what, field="force_options", value=True, fix=fix)
    environments = subject.environments(item, len(options), derive(sampling.seed, "group", place))
    played: list[Trajectory[I]] = []
    for sample, (each, tokens) in enumerate(zip(environments, options, strict=True), sampling.samples):
        turn = Turn(observation=each.first(), tokens=tokens, logprobs=(0.0,) * len(tokens), text=subject.text(tokens))
        if each.step(tokens).observation() is not None:
            what = "options are for tasks of one turn, and this conversation continues"
            raise ConfigError(what, field="force_options", value=True, allowed="false for this task")
        played.append(Trajectory(item=item, sample=sample, turns=(turn,), environment=each))
    return played


def _with_logprobs(one: Trajectory[I], logprobs: Sequence[float | None]) -> Trajectory[I]:
    found = compress(logprobs, one.written())
    (turn,) = one.turns
    return replace(one, turns=(replace(turn, logprobs=tuple(value for value in found if value is not None)),))
