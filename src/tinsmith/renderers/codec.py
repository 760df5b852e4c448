"""Text to tokens and back, through any tokenizer, with control tokens kept out of the text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tinsmith.renderers.renderer import Message, ParsedResponse, ResponseOutcome, Role
from tinsmith.types.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_NEVER = "(?!)"


class Codec:
    """One tokenizer's text <-> tokens, without special tokens added and without clean-up."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        added = tokenizer.added_tokens_decoder
        self._tokenizer = tokenizer
        self._size = len(tokenizer)
        self.control = frozenset(token for token, text in added.items() if text.special)
        """Ids of the special tokens: marks of roles and turns, ends, padding."""
        marks = sorted((added[token].content for token in self.control), key=len, reverse=True)
        self.mark = re.compile("|".join(re.escape(mark) for mark in marks if mark) or _NEVER)
        """Finds the spellings of control tokens."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of `text`, in which a control token's spelling becomes that token."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of `tokens`, control tokens spelled out."""
        text = self._tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    def refuse_control_tokens(self, messages: Sequence[Message]) -> None:
        """Check that no content spells a control token, which would open or end a turn of its own.

        Raises:
            InputError: naming the message and the control token.
        """
        for i, message in enumerate(messages):
            found = self.mark.search(message.content)
            if found is not None:
                raise InputError(
                    "a message spells one of the tokenizer's control tokens",
                    field=f"messages[{i}].content",
                    value=message.content[max(0, found.start() - 20) : found.end() + 20],
                    allowed=f"text without {found[0]}",
                    fix="break the mark up before rendering, for instance by a space inside it",
                )

    def parse(self, tokens: Sequence[int], *, stops: Collection[int]) -> ParsedResponse:
        """Return a reply that one of `stops` should end as a message, and how it ended."""
        end = next((i for i, token in enumerate(tokens) if token in stops), None)
        body = tokens[:end]
        if end is None:
            outcome = ResponseOutcome.NO_STOP
        elif end + 1 < len(tokens) or any(self._not_text(token) for token in body):
            outcome = ResponseOutcome.MALFORMED
        else:
            outcome = ResponseOutcome.OK
        known = [token for token in body if 0 <= token < self._size]
        message = Message(role=Role.ASSISTANT, content=self.decode(known))
        return ParsedResponse(message=message, outcome=outcome)

    def _not_text(self, token: int) -> bool:
        return token in self.control or not 0 <= token < self._size
