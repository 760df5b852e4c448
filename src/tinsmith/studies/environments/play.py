"""Plays a conversation of a `verifiers` environment: what it says to the replies so far, and what they earn.

A conversation is played anew from its row for each reply: the environment keeps a state, a task's functions do not.
What an environment draws is drawn from the row's own seed, so that it says the same again.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.types.errors import TaskError
from tinsmith.types.seeds import derive

Row = Mapping[str, Any]
Theirs = Any  # An object of the library's, or of an environment's.
_MODEL: Final = "policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One function of a rubric."""

    name: str
    rubric: Theirs
    function: Callable[..., Any]
    weight: float
    of_group: bool


@dataclass(slots=True, kw_only=True)
class Player:
    """Plays an environment's rows."""

    env: Theirs
    terms: Sequence[Term]
    _scored: dict[tuple[str, tuple[str, ...]], dict[str, float | Raised]] = field(
        default_factory=dict[tuple[str, tuple[str, ...]], dict[str, float | Raised]]
    )

    def opening(self, name: str, row: Row) -> list[dict[str, str]]:
        """Return the messages that a conversation begins with."""

        async def first() -> list[Any]:
            state = await self._begun(row)
            return list(await self.env.get_prompt_messages(state))

        with _drawing_from(name):
            return [_plain(one) for one in asyncio.run(first())]

    def said(self, name: str, row: Row, replies: Sequence[str]) -> str | None:
        """Return what the environment says to the replies so far; None: the conversation is over."""

        async def next_one() -> list[Any] | None:
            state = await self._after(row, replies)
            if await self.env.is_completed(state):
                return None
            before = len(state["trajectory"][-1]["prompt"]) + 1
            prompt = list(await self.env.get_prompt_messages(state))
            return None if state.get("final_env_response") is not None else prompt[before:]

        with _drawing_from(name):
            found = asyncio.run(next_one())
        if found is None:
            return None
        told = [_plain(one) for one in found]
        if not told or any(one["role"] != "user" for one in told):
            raise TaskError(f"it answered as {[one['role'] for one in told]}, and not as the user")
        return "\n\n".join(one["content"] for one in told)

    def worth(self, name: str, row: Row, replies: Sequence[str], term: str) -> float:
        """Return what a function of the rubric gives, unweighted; raises what it raises.

        All of them are called together and in their order, as they may leave something in the state for the next.
        """
        key = name, tuple(replies)
        if key not in self._scored:
            self._scored.clear()
            with _drawing_from(name):
                self._scored[key] = self._score(row, replies)
        found = self._scored[key][term]
        if isinstance(found, Raised):
            raise found.error
        return found

    def worth_of_group(self, name: str, row: Row, answers: Sequence[str], term: Term) -> list[float]:
        """Return what a function of whole groups gives to each answer, unweighted."""

        async def together() -> list[float]:
            states = [await self._over(row, [one]) for one in answers]
            objects = term.rubric.group_score_objects(states)
            return [float(one) for one in await _called(term, objects)]

        with _drawing_from(name):
            return asyncio.run(together())

    def _score(self, row: Row, replies: Sequence[str]) -> dict[str, float | Raised]:
        state = asyncio.run(self._over(row, replies))

        def called(term: Term) -> float:
            return float(asyncio.run(_called(term, term.rubric.score_objects(state))))

        return {term.name: attempt(called, term) for term in self.terms if not term.of_group}

    async def _begun(self, row: Row) -> Theirs:
        state = await self.env.init_state(dict(row), _nobody(), _MODEL)
        return await self.env.setup_state(state) or state

    async def _after(self, row: Row, replies: Sequence[str]) -> Theirs:
        """Return the state after so many replies."""
        state = await self._begun(row)
        for reply in replies:
            prompt = list(await self.env.get_prompt_messages(state))
            if state["trajectory"]:
                last = state["trajectory"][-1]["prompt"]
                if [_plain(one) for one in prompt[: len(last)]] != [_plain(one) for one in last]:
                    raise TaskError("it takes back what was said before")
            await self.env.add_model_response(state, prompt, _response(reply))
        return state

    async def _over(self, row: Row, replies: Sequence[str]) -> Theirs:
        """Return the state of a conversation that is over, as its rubric is to see it."""
        state = await self._after(row, replies)
        if not await self.env.is_completed(state) and self.env.max_turns != len(replies):
            await self.env.get_prompt_messages(state)  # its last words, if it has any
        await self.env.is_completed(state)
        await self.env.cleanup(state)
        return state


async def _called(term: Term, objects: Mapping[str, Any]) -> Theirs:
    """Call a function of a rubric with those objects that it takes."""
    taken = inspect.signature(term.function).parameters
    everything = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    given = {key: one for key, one in objects.items() if everything or key in taken}
    found = term.function(**given)
    return await found if inspect.isawaitable(found) else found


def _plain(message: Theirs) -> dict[str, str]:
    """Return a message as role and text."""
    told = message if isinstance(message, dict) else message.model_dump()
    content = cast(dict[str, Any], told).get("content")
    if not isinstance(content, str):
        raise TaskError("it has a message that is no text: pictures and tools are not served here")
    return {"role": str(told["role"]), "content": content}


def _response(text: str) -> Theirs:
    """Return a model's reply as the library has it."""
    from verifiers.legacy.types import Response, ResponseMessage

    message = ResponseMessage(content=text, finish_reason="stop", is_truncated=False)
    return Response(id="", created=0, model=_MODEL, message=message)


def _nobody() -> Theirs:
    """Return a client that answers nothing: the replies come from outside."""
    from verifiers.legacy.clients import Client

    methods = dict.fromkeys(Client.__abstractmethods__, _asked)
    return type("Nobody", (Client,), methods)(None)


def _asked(*_args: object, **_kwargs: object) -> None:
    raise TaskError("it asks a model by itself, which is not served here")


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
