"""A conversation in tokens: what a model sees first, and what it sees after each of its replies.

Tokens that were sampled are never rendered again, so that what was sampled is what is trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


class Move(Protocol):
    """What a reply leads to."""

    def observation(self) -> tuple[int, ...] | None:
        """Return the tokens that follow the reply, or None where the conversation is over.

        May wait for whoever answers, so that many can be asked before the first is waited for.
        """
        ...


@runtime_checkable
class Answering(Move, Protocol):
    """A move that says which of the tokens after the reply are the environment's own words, and no template's."""

    def own_words(self) -> tuple[bool, ...]:
        """Return it for each token of the observation; called after that."""
        ...


@runtime_checkable
class Spawning(Move, Protocol):
    """A move whose tokens follow only when further conversations, which it begins, are over."""

    def children(self) -> Sequence[tuple[Any, Environment]]:
        """Return each with its item; called once, before the observation."""
        ...


class Environment(Protocol):
    """One conversation; used once. What it raises is recorded as the failure of one rollout.

    One that is to fork replaces what it remembers and changes nothing of it: it is copied where it stands.
    """

    def first(self) -> tuple[int, ...]:
        """Return the tokens after which the model writes its first reply."""
        ...

    def step(self, tokens: Sequence[int]) -> Move:
        """Take a reply, its stop token included."""
        ...


@dataclass(frozen=True, slots=True)
class Over:
    """The conversation is over."""

    def observation(self) -> None:
        """Return None: nothing follows."""


@dataclass(frozen=True, slots=True)
class OneReply:
    """One prompt, one reply."""

    prompt: tuple[int, ...]

    def first(self) -> tuple[int, ...]:
        """Return the first observation."""
        return self.prompt

    def step(self, tokens: Sequence[int]) -> Over:
        """End the conversation."""
        del tokens
        return Over()
