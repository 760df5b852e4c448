"""Player of conversations in an environment of `verifiers`: what follows the replies so far, and what they earn.

A conversation is played anew from its row for each reply: an environment keeps a state, a task's functions do not. What
an environment draws is drawn from the row's own seed, so that it repeats. The model's seat is taken by its known
replies, in a plain chat as under the library's `null` harness without tools; the environment's hooks see a real trace,
and nothing of an endpoint, a harness or a runtime. What cannot be played so, turn by turn, in this process and by one
model, is refused.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import numpy as np
import verifiers.v1 as vf
from pydantic import TypeAdapter
from verifiers.v1.session import hook_boundary
from verifiers.v1.state import state_cls

from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.studies.environments.source import FIELD, AnyTask
from tinsmith.types.errors import ConfigError, TaskError
from tinsmith.types.loops import BlockingLoop
from tinsmith.types.seeds import derive

AnyTrace: TypeAlias = "vf.Trace[Any, Any, Any]"
_MESSAGES: TypeAdapter[list[Any]] = TypeAdapter(vf.Messages)
_NOT_SERVED = "which is not served here"


class NoRuntime:
    """Stands for a runtime in hooks that take one; any use of it fails by name."""

    def __getattr__(self, name: str) -> NoReturn:
        """Fail, as there is no sandbox."""
        raise TaskError(f"it needs a sandbox (runtime.{name}), {_NOT_SERVED}")


class Seat:
    """The one agent of an episode."""

    def __init__(self, replies: Sequence[str], *, is_over: bool) -> None:
        self.name, self.config, self.trainable = "", vf.AgentConfig(), True
        self.replies = replies
        self.is_over = is_over  # True: after these replies every further turn is refused, as at a limit of turns.
        self.heard: list[Any] = []  # Messages since the last reply; all of them, where there is none.
        self.waits = asyncio.Event()  # Set when a reply is due that is not there.
        self.talk: Talk | None = None

    def made(self, name: str, config: vf.AgentConfig) -> Seat:
        """Return itself as the agent that an environment's configuration names."""
        self.name, self.config = name, config
        return self

    async def run(self, task: AnyTask, **more: object) -> AnyTrace:
        """Play a task to its end: its prompt and one reply."""
        talk = await self._open(task, more)
        await talk.turn()
        return await talk.close("agent_completed")

    @asynccontextmanager
    async def interaction(self, task: AnyTask, **more: object) -> AsyncGenerator[Talk, None]:
        """Hold a conversation open, the environment being its user."""
        talk = await self._open(task, more)
        yield talk
        await talk.close()

    def provision(self, *_: object, **__: object) -> NoReturn:
        """Refuse a runtime."""
        raise TaskError(f"it needs a sandbox (provision), {_NOT_SERVED}")

    async def _open(self, task: AnyTask, more: dict[str, object]) -> Talk:
        if self.talk is not None:
            raise TaskError(f"it holds several conversations in one episode, {_NOT_SERVED}")
        watch = more.pop("on_trace", None)
        if needed := sorted(name for name, value in more.items() if value):
            raise TaskError(f"it gives its agent {', '.join(needed)}, {_NOT_SERVED}")
        for name in ("image", "skills", "artifacts"):
            if value := getattr(task.data, name):
                raise TaskError(f"it needs a container ({name} {value}), {_NOT_SERVED}")
        self.talk = Talk(self, task)
        if callable(watch):
            watch(self.talk.trace)
        await _called(task.setup, self.talk.trace)
        return self.talk


class Talk:
    """A conversation of the seat, as `vf.Interaction` offers it to `run` of an environment."""

    def __init__(self, seat: Seat, task: AnyTask) -> None:
        self.trace: AnyTrace = vf.Trace(
            task=trace_task(task),
            state=state_cls(type(task))(),
            agent=vf.AgentInfo(config=seat.config, name=seat.name, trainable=seat.trainable),
        )
        self._seat = seat
        self._task = task
        self._refused = False

    async def turn(self, message: str | Sequence[Any] | None = None) -> vf.Segment:
        """Say something and return the reply; a terminated segment where a limit or a stop refuses it."""
        opens = not self.trace.nodes and self.trace.task.data.prompt is not None
        if self._refused or opens == (message is not None):
            raise RuntimeError("the prompt opens, a message continues, and nothing follows a terminated segment")
        if await self._is_stopped():
            self._refused = True
            return vf.Segment(messages=[], terminated=True)
        data, opening = self.trace.task.data, list[Any]()
        if not self.trace.nodes:
            system = [] if data.system_prompt is None else [vf.SystemMessage(content=data.system_prompt)]
            opening = [*system, *_messages(data.prompt)]
        self._seat.heard = [*opening, *_messages(message)]
        turns = self.trace.num_turns
        if turns == len(self._seat.replies):
            self._seat.waits.set()
            await asyncio.Event().wait()  # until the episode is cancelled
        reply = vf.AssistantMessage(content=self._seat.replies[turns])
        for one in (*self._seat.heard, reply):
            parent = len(self.trace.nodes) - 1 if self.trace.nodes else None
            self.trace.nodes.append(vf.MessageNode(parent=parent, message=one, sampled=one is reply))
        return vf.Segment(messages=[reply])

    async def close(self, reason: str = "user_closed") -> AnyTrace:
        """End the conversation, and score it."""
        trace = self.trace
        if not trace.ok:
            trace.stop(reason)
            await _called(self._task.finalize, trace)
            await self._task.score(trace)
            trace.ok = True
        return trace

    async def _is_stopped(self) -> bool:
        """Return True where no further turn is served, and note in the trace why: a limit, a stop, no more replies."""
        trace, limit = self.trace, self._seat.config.max_turns
        if limit is not None and trace.num_turns >= limit:
            trace.stop("max_turns")
        for stop in self._task.hooks("stop"):
            found = stop(trace)
            if await found if inspect.isawaitable(found) else found:
                trace.stop(stop.__name__)
        if self._seat.is_over and trace.num_turns >= len(self._seat.replies):
            trace.stop("max_turns")
        return trace.stop_condition is not None


def trace_task(task: AnyTask) -> vf.TraceTask[Any]:
    """Return a task as traces and episodes record it."""
    return vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)


async def _called(hook: Callable[..., Any], trace: AnyTrace) -> None:
    available: dict[str, Any] = {"trace": trace, "runtime": NoRuntime()}
    found = hook(**{name: available[name] for name in inspect.signature(hook).parameters if name in available})
    if inspect.isawaitable(found):
        await found


def _messages(message: str | Sequence[Any] | None) -> list[Any]:
    if message is None or isinstance(message, str):
        return [] if message is None else [vf.UserMessage(content=message)]
    return _MESSAGES.validate_python(list(message))


T = TypeVar("T")
_MOST_CACHED: Final = 256  # Scored conversations that are remembered: each of a task's functions wants the same one.
Row = tuple["vf.Env[Any]", AnyTask]  # One task, and the environment that it is played in.


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """Values that a finished conversation has by the names that the environment records."""

    rewards: Mapping[str, float]  # Weighted; those whose weight is 0 are among the metrics.
    metrics: Mapping[str, float]


def agents_of(env: vf.Env[Any]) -> dict[str, vf.AgentConfig]:
    """Return the agents of an environment by name; one that is served has one."""
    return {name: value for name, value in env.config if isinstance(value, vf.AgentConfig)}


def turns_of(env: vf.Env[Any], most: int) -> int:
    """Return the replies of a conversation, at most so many."""
    (agent,) = agents_of(env).values()
    limit = 1 if type(env).run is vf.SingleAgentEnv.run else agent.max_turns
    return most if limit is None else min(limit, most)


@dataclass
class Player:
    """Plays rows by their names."""

    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    known: frozenset[str] = frozenset()
    """Names of rewards and metrics that conversations may have; empty: not known yet."""

    def __post_init__(self) -> None:
        self._ended = lru_cache(_MOST_CACHED)(self._end)

    def opening(self, name: str) -> list[dict[str, str]]:
        """Return the messages that a conversation begins with."""
        heard = self._heard(name, ())
        if heard is None:
            raise TaskError("it ends before the model is asked")
        return heard

    def _heard(self, name: str, replies: Sequence[str]) -> list[dict[str, str]] | None:
        heard = _run(name, _heard(self.rows[name], replies))
        return None if heard is None else [_plain(one) for one in heard]

    def reply(self, name: str, replies: Sequence[str]) -> str | None:
        """Return the text that follows the replies so far; None: the conversation is over."""
        messages = self._heard(name, replies)
        if messages is None:
            return None
        if not messages or any(one["role"] != "user" for one in messages):
            raise TaskError(f"it answered as {[one['role'] for one in messages]}, and not as the user")
        return "\n\n".join(one["content"] for one in messages)

    def names(self, name: str, answer: str, turns: int) -> tuple[list[str], list[str]]:
        """Return the names of rewards and of metrics, by a conversation in which each reply is `answer`.

        Where the environment fails on that, they are those of its functions.
        """

        def tried() -> Worth:
            replies = [answer]
            while len(replies) < turns and self.reply(name, replies) is not None:
                replies.append(answer)
            return self.worth(name, replies)

        worth = attempt(tried)
        if isinstance(worth, Raised):
            if isinstance(worth.error, TaskError):
                raise worth.error
            _, task = self.rows[name]
            found = [one.__name__ for one in task.hooks("reward")], [one.__name__ for one in task.hooks("metric")]
        else:
            found = list(worth.rewards), list(worth.metrics)
        self.known = frozenset([*found[0], *found[1]])
        return found

    def worth(self, name: str, replies: Sequence[str]) -> Worth:
        """Return what a conversation that is over earns; raises what the environment raises."""
        found = self._ended(name, tuple(replies))
        if isinstance(found, Raised):
            raise found.error
        if self.known and (more := sorted({*found.rewards, *found.metrics} - self.known)):
            raise TaskError(f"it records {', '.join(more)}, which it did not in its first task")
        return found

    def _end(self, name: str, replies: Sequence[str]) -> Worth | Raised:
        return attempt(lambda: _run(name, _worth(self.rows[name], replies)))


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
    env, task = row
    made: Any = seat.made
    agents: vf.Agents[Any] = vf.Agents(env.config, made)
    await env.setup(agents)
    await env.run(task, agents)
    if seat.talk is None:
        raise TaskError("it asks no model")
    episode: vf.Episode[Any, Any, Any] = vf.Episode(env=vf.EnvInfo(id=env.config.env_id), task=trace_task(task))
    episode.traces.append(seat.talk.trace)
    await env.finalize(task, episode)
    return seat.talk.trace


def _run(name: str, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run one play of a row; raises the error of the environment's own code, without what the library wraps around."""
    with _drawing_from(name), BlockingLoop() as loop:
        try:
            return loop.run(coroutine)
        except (vf.RolloutError, BaseExceptionGroup) as error:
            raise _own(error) from None


def _own(error: BaseException) -> BaseException:
    if isinstance(error, BaseExceptionGroup):
        return _own(error.exceptions[0])
    cause = error.__cause__ if isinstance(error, vf.RolloutError) else None
    return error if cause is None else _own(cause)


def _plain(message: vf.Message) -> dict[str, str]:
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


def require_served(name: str, env: vf.Env[Any], first: AnyTask) -> None:
    """Check that an environment and its first task need nothing but what is served here."""
    needed = next(iter((*_needed_by(env, first), *_needed_by_hooks(first))), None)
    if needed is not None:
        what = f"this environment needs {needed}, which is not served here"
        allowed = "tasks of one or more turns whose rewards are functions, without tools, sandboxes and judges"
        raise ConfigError(what, field=FIELD, value=name, allowed=allowed)


def _needed_by(env: vf.Env[Any], first: AnyTask) -> Iterator[str]:
    config = env.config
    agents = agents_of(env)
    if len(agents) != 1:
        yield f"several agents ({', '.join(agents)})"
    for agent, each in agents.items():
        if each.model is not None or each.client is not None:
            yield f"a model of its own ({agent})"
        harness = vf.default_harness_id(config.taskset.id) if each.harness is None else each.harness.id
        if harness not in ("null", "bash" if each.harness is None else "null"):
            yield f"a harness of its own ({harness})"
    for hook in ("start", "stop"):
        if getattr(type(env), hook) is not getattr(vf.Env, hook):
            yield f"services of its own ({type(env).__name__}.{hook})"
    tools = [*env.taskset.toolsets(config.taskset), *first.toolsets(first.config)]
    if tools:
        yield f"tools: {', '.join(sorted(type(one).__name__ for one in tools))}"
    if first.NEEDS_CONTAINER:
        yield f"a container ({type(first).__name__})"
    judges = [one.id for one in first.config.judges]
    for part in (config, config.taskset, first.config):
        judges += [name for name, value in part if isinstance(value, vf.JudgeConfig)]
    if judges:
        yield f"a judge ({', '.join(judges)})"


def _needed_by_hooks(task: AnyTask) -> Iterator[str]:
    for name, function in inspect.getmembers(type(task), inspect.isfunction):
        if hasattr(function, "intercept"):
            yield f"to change messages on their way ({name})"
    for stop in task.hooks("stop"):
        if hook_boundary(stop, allow_trace=True) is not vf.Trace:
            yield f"a stop that reads requests or responses ({stop.__name__})"
    for function in (*task.hooks("metric"), *task.hooks("reward")):
        runtime = inspect.signature(function).parameters.get("runtime")
        if runtime is not None and runtime.default is inspect.Parameter.empty:
            yield f"a sandbox ({function.__name__} takes a runtime)"
