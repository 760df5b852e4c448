"""An environment: one conversation about one item, from the prompt to the last answer, used once.

It knows nothing of tokens, rewards or models. Rewards look at many answers at once (see rewards.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tinsmith.lab.labels.answers import Answer
from tinsmith.lab.labels.leaks import check_prompt
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.prompting import messages
from tinsmith.lab.labels.task import Task
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import InputError


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


class Environment(Protocol):
    """A conversation with a model. Call `first`, then `reply` until it returns None."""

    def first(self) -> tuple[Message, ...]:
        """Return the messages before the model's first reply.

        Raises:
            DataError: the prompt leaks; the run must stop.
            InputError: the environment was used before.
        """
        ...

    def reply(self, text: str) -> Awaited | None:
        """Take the model's reply; return the next message to it, or None where the conversation ends.

        Never raises for what stands in the text.

        Raises:
            InputError: no reply is due.
        """
        ...

    @property
    def transcript(self) -> Transcript:
        """What was said so far."""
        ...


class SingleTurn:
    """One question, one answer."""

    def __init__(self, task: Task, item: Item) -> None:
        self._task = task
        self._transcript = Transcript(item=item)

    @property
    def transcript(self) -> Transcript:
        """What was said so far."""
        return self._transcript

    def first(self) -> tuple[Message, ...]:
        """Return the prompt; see Environment."""
        if self._transcript.turns:
            raise InputError(
                "an environment can be used only once", fix="make a new one for each rollout"
            )
        item = self._transcript.item
        prompt = messages(self._task, item.paper)
        check_prompt(self._task, item, prompt)
        for message in prompt:
            self._transcript = self._transcript.with_turn(message)
        return prompt

    def reply(self, text: str) -> None:
        """Take the answer; the conversation is over. See Environment."""
        if not self._transcript.turns or self._transcript.answers:
            raise InputError("no reply is due", fix="call first() once, then reply() once")
        # What a tokenizer decodes is text; a text made by hand may hold what no message can.
        said = text.encode(errors="replace").decode()
        self._transcript = self._transcript.with_turn(
            Message(role=Role.ASSISTANT, content=said), self._task.contract.parse(text)
        )
