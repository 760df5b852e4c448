"""What was said in a conversation of two so far, and the message that is still to come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tinsmith.lab.labels.answers import Answer
from tinsmith.lab.labels.paper import Item
from tinsmith.renderers.renderer import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message; `answer` where the model wrote it."""

    message: Message
    answer: Answer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What was said so far, in order."""

    item: Item
    turns: tuple[Turn, ...] = ()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The model's answers in order."""
        return tuple(turn.answer for turn in self.turns if turn.answer is not None)

    @property
    def final(self) -> Answer | None:
        """The last answer, which is the one that counts; None before there is one."""
        return self.answers[-1] if self.answers else None

    def with_turn(self, message: Message, answer: Answer | None = None) -> Transcript:
        """Return the transcript with one more turn."""
        return Transcript(item=self.item, turns=(*self.turns, Turn(message=message, answer=answer)))


class Awaited(Protocol):
    """The next message to the model; whoever writes it may still be at it.

    So many replies can be handed over before the first message is waited for.
    """

    def message(self) -> Message:
        """Wait for the message. It is the same each time.

        Raises:
            DataError: it leaks; the model must not read it.
        """
        ...
