"""Conversation in tokens: the initial prompt, and the observation after each reply.

Tokens that were sampled are never rendered again, so that what was sampled is what is trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Move:
    """Outcome of a reply; the base class ends the conversation."""

    __slots__ = ()

    def children(self) -> Sequence[tuple[Any, Environment]]:
        """Return further conversations that must be over before the observation, each with its item; called once."""
        return ()

    def observation(self) -> tuple[int, ...] | None:
        """Return the tokens that follow the reply, or None where the conversation is over.

        May wait for whoever answers, so that many can be asked before the first is waited for.
        """
        return None

    def own_words(self) -> tuple[bool, ...]:
        """Return a mask of the tokens written by the environment rather than the template; empty if unknown."""
        return ()


@dataclass(frozen=True, slots=True)
class Failed:
    """Cause of an answer without a reward: recorded, and excluded from means."""

    where: str
    what: str


class Environment(Protocol):
    """Environment of one conversation; used once. An exception fails its rollout alone.

    One that is to fork replaces what it remembers and changes nothing of it: it is copied where it stands.
    """

    def first(self) -> tuple[int, ...]:
        """Return the tokens after which the model writes its first reply."""
        ...

    def step(self, tokens: Sequence[int]) -> Move:
        """Take a reply with its stop token."""
        ...


@dataclass(frozen=True, slots=True)
class OneReply:
    """Environment of one prompt and one reply."""

    prompt: tuple[int, ...]

    def first(self) -> tuple[int, ...]:
        """Return the first observation."""
        return self.prompt

    def step(self, tokens: Sequence[int]) -> Move:
        """End the conversation."""
        del tokens
        return Move()
