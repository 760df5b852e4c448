"""Seat of the model in an environment of `verifiers`: its replies are known, and nobody is asked for more.

Each conversation is a plain chat, as under the library's `null` harness without tools. The environment's hooks see a
real trace, and nothing of an endpoint, a harness or a runtime.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeAlias

import verifiers.v1 as vf
from pydantic import TypeAdapter
from verifiers.v1.state import state_cls

from tinsmith.types.errors import TaskError

AnyTask: TypeAlias = "vf.Task[Any, Any, Any]"
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
        self.is_over = is_over
        """True: after these replies every further turn is refused, as at a limit of turns."""
        self.heard: list[Any] = []
        """Messages since the last reply; all of them, where there is none."""
        self.waits = asyncio.Event()
        """Set when a reply is due that is not there."""
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
        require_plain(task.data)
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
        opening = [] if self.trace.nodes else self._opening()
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

    def _opening(self) -> list[Any]:
        data = self.trace.task.data
        system = [] if data.system_prompt is None else [vf.SystemMessage(content=data.system_prompt)]
        return [*system, *_messages(data.prompt)]

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


def require_plain(data: vf.TaskData) -> None:
    """Check that a task needs neither a container nor skills."""
    for name in ("image", "skills", "artifacts"):
        if value := getattr(data, name):
            raise TaskError(f"it needs a container ({name} {value}), {_NOT_SERVED}")


async def _called(hook: Callable[..., Any], trace: AnyTrace) -> None:
    """Call `setup` or `finalize` with those arguments that it takes."""
    available: dict[str, Any] = {"trace": trace, "runtime": NoRuntime()}
    found = hook(**{name: available[name] for name in inspect.signature(hook).parameters if name in available})
    if inspect.isawaitable(found):
        await found


def _messages(message: str | Sequence[Any] | None) -> list[Any]:
    if message is None or isinstance(message, str):
        return [] if message is None else [vf.UserMessage(content=message)]
    return _MESSAGES.validate_python(list(message))
