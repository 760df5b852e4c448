"""Bodies of `/v1/chat/completions` and `/v1/completions`."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tinsmith.server.openai.conversed import Conversed
from tinsmith.server.openai.generation import Count, Generation
from tinsmith.server.openai.messages import ChatMessage, unread
from tinsmith.server.wire.body import Int32, TokenId
from tinsmith.server.wire.bounds import FailFast, TurnList
from tinsmith.server.wire.requests import MAX_SAMPLES
from tinsmith.types.errors import InputError

MAX_PROMPTS = 2048
"""Most prompts in one request; OpenAI's own limit."""
MAX_CHOICES = 4096
"""Most choices in one request: prompts times samples per prompt."""
NUM_TOKENS = 16
"""Default length of a completion in tokens, as OpenAI's."""


def require_choices(field: str, num_prompts: int, num_drawn: int) -> None:
    """Reject more prompts or choices than one request may have.

    Raises:
        InputError: naming `field`, the field of the prompts, or n.
    """
    if num_prompts > MAX_PROMPTS:
        raise InputError("too many prompts in one request", field=field, value=num_prompts, allowed=f"{MAX_PROMPTS}")
    if num_prompts * num_drawn > MAX_CHOICES:
        raise InputError(
            "too many choices in one request",
            field="n",
            value=f"{num_prompts} prompts x {num_drawn}",
            allowed=f"{MAX_CHOICES} in all",
        )


class ChatRequest(Generation, Conversed):
    """POST /v1/chat/completions."""

    messages: Annotated[TurnList[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Int32 | None = None
    logprobs: bool | None = None
    top_logprobs: Count | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise InputError(
                "the most probable tokens come with the log-probabilities",
                field="top_logprobs",
                value=self.top_logprobs,
                allowed="with logprobs = true",
            )
        require_choices("messages", 1, self.num_drawn)
        given = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(given) > 1:
            raise InputError(
                "two different maximum lengths are given",
                field="max_completion_tokens",
                value=self.max_completion_tokens,
                allowed=f"the same as max_tokens = {self.max_tokens}, or only one of them",
            )
        return self

    @property
    def length(self) -> int | None:
        """Most tokens of a reply; None for as many as the context holds."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def only_prompt(self) -> bool:
        """True if nothing is drawn, and only the prompt is returned."""
        return self.length == 0 and self.scores_prompt


class CompletionRequest(Generation):
    """POST /v1/completions."""

    prompt: str | FailFast[list[str]] | FailFast[list[TokenId]] | FailFast[list[FailFast[list[TokenId]]]]
    logprobs: Count | None = None
    echo: bool | None = None
    """True to include the prompt in the text and in the tokens' scores."""
    best_of: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] | None = None
    """Samples drawn per prompt; the `n` with the highest mean log-probability per token become choices."""
    add_special_tokens: bool | None = None
    """False to add no begin token before a text prompt."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.num_drawn < self.num_samples or (self.stream and self.num_drawn > self.num_samples):
            raise InputError(
                "best_of does not fit the other parameters",
                field="best_of",
                value=self.best_of,
                allowed=f"n = {self.num_samples} with stream, else at least that",
            )
        several = isinstance(self.prompt, list) and bool(self.prompt) and not isinstance(self.prompt[0], int)
        count = len(self.prompt) if several else 1
        require_choices("prompt", count, self.num_drawn)
        return self

    @property
    def num_drawn(self) -> int:
        """Samples per prompt."""
        return self.num_samples if self.best_of is None else self.best_of

    @property
    def length(self) -> int:
        """Most tokens of a completion."""
        return NUM_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def tells_all(self) -> bool:
        """True to return every token: with `echo` too, so that a scorer can count from the end."""
        return bool(self.echo) or super().tells_all

    @property
    def scores_prompt(self) -> bool:
        """True if any score of the prompt's tokens is needed."""
        return super().scores_prompt or bool(self.echo and (self.logprobs is not None))

    @property
    def num_prompt_top(self) -> int:
        """Number of most probable tokens to return at every position of the prompt."""
        return max(super().num_prompt_top, (self.logprobs or 0) if self.echo else 0)

    @property
    def only_prompt(self) -> bool:
        """True if nothing is drawn, and only the prompt is returned."""
        return self.length == 0 and (bool(self.echo) or super().scores_prompt)

    @property
    def prompts(self) -> tuple[str | tuple[int, ...], ...]:
        """Return the prompts, each a text or token ids.

        Raises:
            InputError: there is none.
        """
        if isinstance(self.prompt, str):
            return (self.prompt,)
        tokens = tuple(each for each in self.prompt if isinstance(each, int))
        if tokens:
            return (tokens,)
        if not self.prompt:
            raise unread("prompt", [], "a text, token ids, or a list of either")
        return tuple(
            each if isinstance(each, str) else tuple(each) for each in self.prompt if not isinstance(each, int)
        )
