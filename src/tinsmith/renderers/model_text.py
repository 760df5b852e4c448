"""One model's text: prompts to tokens, tokens to text and bytes, chats to prompts."""

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
    """One model's tokenizer, and which of its tokens the model knows."""

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

        Templates are other people's programs: each runs in a process of its own, and one that cannot be followed is
        tried once.

        Raises:
            ConfigError, InputError: there is none, or one that cannot be followed.
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
        """Return a completion's prompt: after what the tokenizer puts first; spelled control tokens count.

        Raises:
            InputError: the text holds a token that the model has no row for.
        """
        tokens = (self._opening if begin else ()) + self.codec.encode(text)
        self.require_rows(tokens, field="prompt")
        return tokens

    def require_rows(self, tokens: Sequence[int], *, field: str) -> None:
        """Check that the model can read these tokens.

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
        """The most letters of a text that one token can stand for.

        A vocabulary writes a letter with one or more of its own. Twice as many, as a normaliser may join letters and
        drop spaces.
        """
        return 2 * max(map(len, self.tokenizer.get_vocab()), default=1)

    @property
    def num_opening(self) -> int:
        """Tokens that `prompt` puts before a text's own."""
        return len(self._opening)

    def bytes_of(self, token: int) -> bytes:
        """Return what one token adds to the text; empty for a token that has no text."""
        return self.codec.bytes_of(token)
