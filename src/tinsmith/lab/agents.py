"""Several adapters on one base as one policy: each writes one reply of a conversation, and trains on that one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import tinker

from tinsmith.lab.grouping import Scored, ScoredGroup
from tinsmith.lab.policy import update_policy
from tinsmith.lab.rollouts import A, I, Sampler
from tinsmith.lab.settings import RlSettings

ALONE: Mapping[int, int] = {0: 1}  # One adapter, whatever the step.


@dataclass(slots=True)
class Agents:
    """Training clients of a run's agents, the first one's first."""

    trainers: list[tinker.TrainingClient]
    by_step: Mapping[int, int] = field(default_factory=lambda: ALONE)  # Their number by the step from which it holds.
    begin: Callable[[int], tinker.TrainingClient] | None = None  # Begins the adapter of an agent, by its number.

    @property
    def several(self) -> bool:
        """True if there is more than one at any time."""
        return max(self.by_step.values()) > 1

    def at(self, step: int) -> Sequence[tinker.TrainingClient]:
        """Return those of a step; adapters that are new then begin."""
        count = max(number for since, number in self.by_step.items() if since <= step)
        while len(self.trainers) < count:
            assert self.begin is not None, "where there are several, somebody begins them"
            self.trainers.append(self.begin(len(self.trainers)))
        return self.trainers

    def policy(self, clients: Sequence[tinker.SamplingClient]) -> Sampler:
        """Return the clients of all of them as one; the only one, where there is one adapter at all times."""
        return clients if self.several else clients[0]


def joined(paths: Iterable[str]) -> str:
    """Return where the adapters of a policy are saved as one text; no path has a space in it."""
    return " ".join(paths)


def update_agents(
    trainers: Sequence[tinker.TrainingClient],
    groups: Sequence[ScoredGroup[I, A]],
    settings: RlSettings,
    step: int,
    reference: tinker.SamplingClient | None,
) -> dict[str, float]:
    """Train every agent on its own replies with what the conversations earned; return metrics as `update_policy`."""
    figures = [
        update_policy(trainer, [_of_agent(group, number) for group in groups], settings, step, reference)
        for number, trainer in enumerate(trainers)
    ]
    names = sorted({name for each in figures for name in each})
    values = {name: [each[name] for each in figures if name in each] for name in names}
    found = {name: _COMBINED.get(name, fmean)(some) for name, some in values.items()}
    if len(values.get("optim/skipped", ())) < len(figures):
        found.pop("optim/skipped", None)
    return {**found, "train/agents": float(len(trainers))}


_COMBINED: Mapping[str, Callable[[Iterable[float]], float]] = {
    "optim/loss": math.fsum,
    "optim/unequal_logprob_bits": math.fsum,
    "optim/grad_norm": lambda norms: math.sqrt(math.fsum(one * one for one in norms)),
}
"""Functions that make one figure of several agents'; any other is their mean."""


def _of_agent(group: ScoredGroup[I, A], number: int) -> ScoredGroup[I, A]:
    """Return a group as one agent trains on it: conversations that came to its reply, up to there."""
    return replace(group, scored=tuple(_heard_by(one, number) for one in group.scored if _spoke(one, number)))


def _spoke(one: Scored[I, A], number: int) -> bool:
    return len(one.rollout.turns) > number


def _heard_by(one: Scored[I, A], number: int) -> Scored[I, A]:
    """Return a conversation with one reply, and all before it as what that one replied to."""
    before, mine = one.rollout.turns[:number], one.rollout.turns[number]
    read = [token for turn in before for token in (*turn.observation, *turn.tokens)]
    turn = replace(mine, observation=(*read, *mine.observation), own_words=(), observed=())
    return replace(one, rollout=replace(one.rollout, turns=(turn,)))
