"""Text side of a model: prompts to tokens, tokens to text and bytes, chats to prompts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from tinsmith.renderers.bounded_template import BoundedTemplate
from tinsmith.renderers.chat_template import template_of
from tinsmith.renderers.codec import Codec
from tinsmith.renderers.conversation import ConversationRenderer
from tinsmith.renderers.vocabulary import Vocabulary
from tinsmith.types.errors import InputError, TinsmithError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ModelText:
    """Tokenizer of one model, restricted to tokens that the model knows."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, num_rows: int, end_tokens: Sequence[int] = ()) -> None:
        """Read and write text for a model with `num_rows` rows, whose completions end with `end_tokens`."""
        self.tokenizer = tokenizer
        self.codec = Codec(tokenizer)
        self.vocabulary = Vocabulary.of(tokenizer, num_rows)
        self._end_tokens = tuple(end_tokens)
        self._opening = self.codec.opening()
        self._conversations: dict[bool, ConversationRenderer | TinsmithError] = {}
        self._probing = Lock()

    def conversation(self, *, tools: bool) -> ConversationRenderer:
        """Return the renderer that follows the model's chat template for requests with `tools`, or without.

        Templates are other people's programs: each runs in a separate process, and an unusable one is tried once.

        Raises:
            ConfigError, InputError: there is none, or it is not usable.
        """
        with self._probing:
            if tools not in self._conversations:
                try:
                    self._conversations[tools] = self._conversation(tools)
                except TinsmithError as error:
                    self._conversations[tools] = error
            found = self._conversations[tools]
        if isinstance(found, TinsmithError):
            raise found.with_traceback(None)
        return found

    def _conversation(self, tools: bool) -> ConversationRenderer:
        template = template_of(self.tokenizer, tools=tools, prepare=BoundedTemplate)
        for other in self._conversations.values():
            if isinstance(other, ConversationRenderer) and other.template.source == template.source:
                return other
        return ConversationRenderer(self.tokenizer, template, end_tokens=self._end_tokens, tools=tools)

    def prompt(self, text: str, *, begin: bool = True) -> tuple[int, ...]:
        """Return a completion's prompt, after the tokenizer's begin tokens; spelled control tokens are parsed.

        Raises:
            InputError: the text has a token without a row in the model.
        """
        tokens = (self._opening if begin else ()) + self.codec.encode(text)
        self.require_rows(tokens, field="prompt")
        return tokens

    def require_rows(self, tokens: Sequence[int], *, field: str) -> None:
        """Check that the model has a row for each of these tokens.

        Raises:
            InputError: naming the first that has no row.
        """
        num_rows = self.vocabulary.num_rows
        beyond = next((token for token in tokens if token >= num_rows), None)
        if beyond is not None:
            raise InputError(
                f"this text holds token {beyond}, for which the model has no weights",
                field=field,
                value=self.codec.decode((beyond,)),
                allowed=f"text of the tokens 0 to {num_rows - 1}",
            )

    @cached_property
    def longest(self) -> int:
        """Return the most letters of a text that one token can represent.

        A vocabulary writes a letter with one or more of its own. Twice as many, as a normaliser may join letters and
        drop spaces.
        """
        return 2 * max(map(len, self.tokenizer.get_vocab()), default=1)

    @property
    def num_opening(self) -> int:
        """Number of tokens that `prompt` adds before a text's own."""
        return len(self._opening)

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text; empty for a token without text."""
        return self.codec.bytes_of(token)
