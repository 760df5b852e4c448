"""vLLM's `/tokenize` and `/detokenize`: conversion of a text or chat to tokens, and of tokens to text."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tinsmith.renderers.model_text import ModelText
from tinsmith.server.openai.answers import Json
from tinsmith.server.openai.conversed import Conversed, turns_of
from tinsmith.server.openai.generation import check_extras
from tinsmith.server.openai.messages import ChatMessage
from tinsmith.server.wire.body import Request, TokenId, check_one_given
from tinsmith.server.wire.bounds import FailFast, TurnList
from tinsmith.types.errors import InputError


class TokenizeRequest(Conversed):
    """POST /tokenize: for a text, or for a chat as `/v1/chat/completions` would read it."""

    model: str | None = None
    """Model name; None for the only one that is served."""
    prompt: str | None = None
    messages: Annotated[TurnList[ChatMessage], Field(min_length=1)] | None = None
    add_special_tokens: bool | None = None
    """For a text: True (the default) adds the tokenizer's begin token, if it has one. For a chat only False is allowed:
    the template adds its own."""
    return_token_strs: bool | None = None
    """True to return the vocabulary's spelling of the tokens too."""

    @model_validator(mode="after")
    def _is_served(self) -> Self:
        check_one_given(prompt=self.prompt, messages=self.messages)
        check_extras(self.model_extra or {}, {}, type(self).model_fields)
        if self.messages is not None and self.add_special_tokens:
            raise InputError(
                "a chat's template puts its special tokens itself",
                field="add_special_tokens",
                value=True,
                allowed="false with messages",
            )
        return self

    @property
    def num_letters(self) -> int:
        """Number of characters of the text, or of the chat's messages."""
        contents = (message.content or "" for message in self.messages or ())
        texts = (each if isinstance(each, str) else "".join(part.text or "" for part in each) for each in contents)
        return len(self.prompt or "") + sum(map(len, texts))

    def tokens(self, text: ModelText) -> tuple[int, ...]:
        """Return the tokens for the model.

        Raises:
            InputError, ConfigError: a chat that cannot be rendered.
        """
        if self.messages is None:
            begin = self.add_special_tokens is not False
            return text.prompt(self.prompt or "", begin=begin)
        turns = turns_of(self.messages)
        tools = self.offered_tools().shown
        tokens = text.conversation(tools=bool(tools)).prompt(
            turns, tools=tools, opening=self.opening(turns), options=self.chat_template_kwargs
        )
        text.require_rows(tokens, field="messages")
        return tokens


class DetokenizeRequest(Request):
    """POST /detokenize."""

    model: str | None = None
    """Model name; None for the only one that is served."""
    tokens: FailFast[list[TokenId]]

    def text(self, text: ModelText, vocab_size: int) -> str:
        """Return the text of the tokens, control tokens spelled out.

        Raises:
            InputError: for an id that the model does not have.
        """
        for i, token in enumerate(self.tokens):
            if token >= vocab_size:
                raise InputError(
                    "there is no such token", field=f"tokens[{i}]", value=token, allowed=f"0 to {vocab_size - 1}"
                )
        return text.codec.decode(self.tokens)


def tokenized(body: TokenizeRequest, text: ModelText, length: int) -> Json:
    """Return the answer of /tokenize; `length`: the size of the model's context in tokens."""
    tokens = body.tokens(text)
    strings = [text.codec.piece(token) for token in tokens] if body.return_token_strs else None
    return {"count": len(tokens), "max_model_len": length, "tokens": tokens, "token_strs": strings}
