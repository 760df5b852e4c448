"""Interface of a renderer: messages in, tokens out; a reply's tokens in, a message out.

Tokens that a model has read or sampled are never rendered again: a longer conversation has the shorter one's tokens as
its exact prefix, and training uses the sampled tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tinsmith.types.errors import InputError


class Role(StrEnum):
    """Speaker of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Turn of a conversation."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        try:
            self.content.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                "a message is text that UTF-8 can hold",
                field="content",
                value=self.content[error.start : error.end],
                allowed="anything but lone surrogates (U+D800 to U+DFFF)",
                fix="read the text with errors='replace', or drop these characters",
            ) from None


class ResponseOutcome(StrEnum):
    """Outcome of parsing a sampled reply."""

    OK = "ok"
    """It ends in a stop token, with plain text before it."""
    NO_STOP = "no_stop"
    """It has no stop token: it was truncated."""
    MALFORMED = "malformed"
    """It contains a control token or an unknown token, or tokens follow the stop token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedResponse:
    """Sampled reply as a message. The text is for reading; training uses the tokens."""

    message: Message
    """Text before the first stop token; bytes that are not UTF-8 are shown as U+FFFD."""
    outcome: ResponseOutcome


class Renderer(Protocol):
    """Conversations to tokens and back, for one tokenizer."""

    def build_generation_prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the tokens after which the model writes the next reply."""
        ...

    def build_supervised_example(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return a conversation's tokens and their weights.

        The weight is 0.0 on `build_generation_prompt(messages[:-1])`, with which the tokens begin,
        and 1.0 after it: on the last message, a reply, and on the stop token that ends it.
        """
        ...

    def stop_sequences(self) -> tuple[int, ...]:
        """Return the token ids that end a reply, to be given to the sampler."""
        ...

    def parse_response(self, tokens: Sequence[int]) -> ParsedResponse:
        """Return a sampled reply, stop token included, as a message."""
        ...

    def extend(
        self, prompt_tokens: Sequence[int], response_tokens: Sequence[int], next_messages: Sequence[Message]
    ) -> tuple[int, ...]:
        """Return the next prompt: it begins with the prompt and the response, token for token.

        A reply that did not end with the renderer's stop token is followed by it.
        """
        ...


def split_supervised(messages: Sequence[Message]) -> tuple[Sequence[Message], Message]:
    """Return the messages before the last, and the last, which must be a reply.

    Raises:
        InputError: if there is no prompt, or the last message is not the assistant's.
    """
    if len(messages) < 2 or messages[-1].role is not Role.ASSISTANT:
        raise InputError(
            "a supervised example is a prompt and the reply to it",
            field="messages",
            value=[message.role.value for message in messages],
            allowed="two or more, the last one the assistant's",
        )
    return messages[:-1], messages[-1]


def require_prompt(messages: Sequence[Message]) -> None:
    """Check that there is something to reply to.

    Raises:
        InputError: for no messages, or if the last one is the assistant's own.
    """
    if not messages or messages[-1].role is Role.ASSISTANT:
        raise InputError(
            "there is nothing to reply to",
            field="messages",
            value=[message.role.value for message in messages],
            allowed="one or more, the last one not the assistant's",
        )
