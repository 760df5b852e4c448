"""Renderer without a template: contents as text, each reply directly after its prompt.

Messages that are not replies are joined by an empty line; a reply ends with the tokenizer's end
token. For base models, and for prompts that spell out their own layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinsmith.renderers.codec import Codec
from tinsmith.renderers.renderer import Message, ParsedResponse, Role, require_prompt, split_supervised
from tinsmith.types.errors import ConfigError, InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SEPARATOR = "\n\n"
"""Separator of two neighbouring messages, neither of which is a reply."""


class PlainRenderer:
    """`Renderer` of plain text. Roles leave no trace, except that a reply ends with the end token."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        end = tokenizer.eos_token_id
        if not isinstance(end, int):
            raise ConfigError(
                "this tokenizer has no end token, so no reply would ever end",
                field="eos_token",
                value=end,
                fix="name one in the model folder's tokenizer_config.json",
            )
        self._codec = Codec(tokenizer)
        self._end = end
        self._opening = self._codec.opening()

    def build_generation_prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the contents' tokens, after the tokenizer's begin tokens.

        Raises:
            InputError: if there is no text, nothing to reply to, or a control token in a content.
        """
        require_prompt(messages)
        tokens = self._opening + self._render(messages)
        if not tokens:
            raise InputError(
                "a prompt without text gives a model nothing to continue",
                field="messages",
                value=[message.content for message in messages],
                allowed="at least one content that is not empty",
            )
        return tokens

    def build_supervised_example(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return prompt, reply and end token; the weight is 1.0 on the last two.

        Raises:
            InputError: see `build_generation_prompt`; also if the last message is not a reply.
        """
        before, reply = split_supervised(messages)
        prompt = self.build_generation_prompt(before)
        response = self._render((reply,))
        return prompt + response, (0.0,) * len(prompt) + (1.0,) * len(response)

    def stop_sequences(self) -> tuple[int, ...]:
        """Return the end token."""
        return (self._end,)

    def parse_response(self, tokens: Sequence[int]) -> ParsedResponse:
        """Return everything before the end token as the reply.

        A space that the tokenizer puts before a text's first word is not part of it.
        """
        return self._codec.parse(tokens, stops=(self._end,))

    def extend(
        self, prompt_tokens: Sequence[int], response_tokens: Sequence[int], next_messages: Sequence[Message]
    ) -> tuple[int, ...]:
        """Return the prompt, the response, the end token if it is missing, and the next contents.

        Raises:
            InputError: if there is nothing to reply to, or a control token in a content.
        """
        require_prompt(next_messages)
        ended = bool(response_tokens) and response_tokens[-1] == self._end
        closing = () if ended else (self._end,)
        return (*prompt_tokens, *response_tokens, *closing, *self._render(next_messages))

    def _render(self, messages: Sequence[Message]) -> tuple[int, ...]:
        self._codec.refuse_control_tokens(messages)
        tokens: tuple[int, ...] = ()
        text = ""
        for i, message in enumerate(messages):
            if message.role is Role.ASSISTANT:
                tokens += self._codec.encode(text) + self._codec.encode(message.content) + (self._end,)
                text = ""
            else:
                joined = i > 0 and messages[i - 1].role is not Role.ASSISTANT
                text += (SEPARATOR if joined else "") + message.content
        return tokens + self._codec.encode(text)
