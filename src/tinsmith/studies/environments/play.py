"""Player of conversations in an environment of `verifiers`: what follows the replies so far, and what they earn.

A conversation is played anew from its row for each reply: an environment keeps a state, a task's functions do not.
What an environment draws is drawn from the row's own seed, so that it repeats.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
import verifiers.v1 as vf

from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.studies.environments.seat import AnyTask, AnyTrace, Seat, trace_task
from tinsmith.types.errors import TaskError
from tinsmith.types.seeds import derive

T = TypeVar("T")
_MOST_CACHED: Final = 256
"""Scored conversations that are remembered: each of a task's functions wants the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One task, and the environment that it is played in."""

    env: vf.Env[Any]
    task: AnyTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """Values that a finished conversation has by the names that the environment records."""

    rewards: Mapping[str, float]
    """Weighted; those whose weight is 0 are among the metrics."""
    metrics: Mapping[str, float]


def agents_of(env: vf.Env[Any]) -> dict[str, vf.AgentConfig]:
    """Return the agents of an environment by name; one that is served has one."""
    return {name: value for name, value in env.config if isinstance(value, vf.AgentConfig)}


def turns_of(env: vf.Env[Any], most: int) -> int:
    """Return the replies of a conversation, at most so many."""
    (agent,) = agents_of(env).values()
    limit = 1 if type(env).run is vf.SingleAgentEnv.run else agent.max_turns
    return most if limit is None else min(limit, most)


@dataclass(slots=True)
class Player:
    """Plays rows by their names."""

    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    known: frozenset[str] = frozenset()
    """Names of rewards and metrics that conversations may have; empty: not known yet."""
    _cached: dict[tuple[str, tuple[str, ...]], Worth | Raised] = field(
        default_factory=dict[tuple[str, tuple[str, ...]], Worth | Raised]
    )

    def opening(self, name: str) -> list[dict[str, str]]:
        """Return the messages that a conversation begins with."""
        heard = _run(name, _heard(self.rows[name], ()))
        if heard is None:
            raise TaskError("it ends before the model is asked")
        return [_plain(one) for one in heard]

    def reply(self, name: str, replies: Sequence[str]) -> str | None:
        """Return the text that follows the replies so far; None: the conversation is over."""
        heard = _run(name, _heard(self.rows[name], replies))
        if heard is None:
            return None
        messages = [_plain(one) for one in heard]
        if not messages or any(one["role"] != "user" for one in messages):
            raise TaskError(f"it answered as {[one['role'] for one in messages]}, and not as the user")
        return "\n\n".join(one["content"] for one in messages)

    def names(self, name: str, answer: str, turns: int) -> tuple[list[str], list[str]]:
        """Return the names of rewards and of metrics, by a conversation in which each reply is `answer`.

        Where the environment fails on that, they are those of its functions.
        """
        worth = attempt(lambda: self._tried(name, answer, turns))
        if isinstance(worth, Raised):
            if isinstance(worth.error, TaskError):
                raise worth.error
            task = self.rows[name].task
            found = [one.__name__ for one in task.hooks("reward")], [one.__name__ for one in task.hooks("metric")]
        else:
            found = list(worth.rewards), list(worth.metrics)
        self.known = frozenset([*found[0], *found[1]])
        return found

    def _tried(self, name: str, answer: str, turns: int) -> Worth:
        replies = [answer]
        while len(replies) < turns and self.reply(name, replies) is not None:
            replies.append(answer)
        return self.worth(name, replies)

    def worth(self, name: str, replies: Sequence[str]) -> Worth:
        """Return what a conversation that is over earns; raises what the environment raises."""
        key = name, tuple(replies)
        if key not in self._cached:
            if len(self._cached) == _MOST_CACHED:
                self._cached.clear()
            self._cached[key] = attempt(lambda: _run(name, _worth(self.rows[name], replies)))
        found = self._cached[key]
        if isinstance(found, Raised):
            raise found.error
        if self.known and (more := sorted({*found.rewards, *found.metrics} - self.known)):
            raise TaskError(f"it records {', '.join(more)}, which it did not in its first task")
        return found


async def _heard(row: Row, replies: Sequence[str]) -> list[Any] | None:
    """Return the messages after these replies, where one more is due."""
    seat = Seat(replies, is_over=False)
    episode = asyncio.ensure_future(_play(row, seat))
    waits = asyncio.ensure_future(seat.waits.wait())
    await asyncio.wait({episode, waits}, return_when=asyncio.FIRST_COMPLETED)
    for one in (episode, waits):
        one.cancel()
    await asyncio.gather(episode, waits, return_exceptions=True)
    if seat.waits.is_set():
        return seat.heard
    episode.result()
    return None


async def _worth(row: Row, replies: Sequence[str]) -> Worth:
    trace = await _play(row, Seat(replies, is_over=True))
    if trace.num_turns < len(replies):
        raise TaskError(f"it ended after {trace.num_turns} of {len(replies)} replies: it is not the same each time")
    rewards = {name: one for name, one in trace.rewards.items() if one is not None}
    unweighted = {name: one.score for name, one in rewards.items() if not one.weight}
    return Worth(
        rewards={name: one.value for name, one in rewards.items() if one.weight},
        metrics=unweighted | {name: value for name, value in trace.metrics.items() if value is not None},
    )


async def _play(row: Row, seat: Seat) -> AnyTrace:
    """Play an episode to its end; return the trace of its one conversation."""
    made: Any = seat.made
    agents: vf.Agents[Any] = vf.Agents(row.env.config, made)
    await row.env.setup(agents)
    await row.env.run(row.task, agents)
    if seat.talk is None:
        raise TaskError("it asks no model")
    episode: vf.Episode[Any, Any, Any] = vf.Episode(env=vf.EnvInfo(id=row.env.config.env_id), task=trace_task(row.task))
    episode.traces.append(seat.talk.trace)
    await row.env.finalize(row.task, episode)
    return seat.talk.trace


def _run(name: str, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run one play of a row; raises the error of the environment's own code, without what the library wraps around."""
    with _drawing_from(name):
        try:
            return asyncio.run(coroutine)
        except (vf.RolloutError, BaseExceptionGroup) as error:
            raise _own(error) from None


def _own(error: BaseException) -> BaseException:
    if isinstance(error, BaseExceptionGroup):
        return _own(error.exceptions[0])
    cause = error.__cause__ if isinstance(error, vf.RolloutError) else None
    return error if cause is None else _own(cause)


def _plain(message: vf.Message) -> dict[str, str]:
    """Return a message as role and text."""
    if not isinstance(message.content, str):
        raise TaskError("it has a message that is no text: pictures and tools are not served here")
    return {"role": str(message.role), "content": message.content}


@contextmanager
def _drawing_from(name: str) -> Generator[None, None, None]:
    """Let what is drawn hang on the row alone, and leave everybody else's draws as they were."""
    before, numbers = random.getstate(), np.random.get_state()
    seed = derive(0, "environment", name)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numbers)
