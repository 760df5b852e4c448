"""Bodies of the OpenAI-compatible requests. What would change the answer and is not served is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from tinsmith.server.body import Finite, Int32, Request, TokenId
from tinsmith.server.openai.messages import ChatMessage, unread
from tinsmith.server.requests import MAX_SAMPLES
from tinsmith.server.settings import SamplingSettings
from tinsmith.types.errors import InputError

NUM_TOKENS = 16
"""Tokens of a completion that does not say how many: OpenAI's own default."""

_REMARKS = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
"""They change no token, so they are taken and ignored."""

_NEUTRAL: Mapping[str, tuple[JsonValue, ...]] = {
    "echo": (False,),
    "frequency_penalty": (0, 0.0),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "presence_penalty": (0, 0.0),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
}
"""Values with which a parameter that is not known here means nothing."""


class StreamOptions(Request):
    """What a stream holds beside the text."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Generation(Request):
    """What both kinds of request have."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", protected_namespaces=())

    model: str
    max_tokens: Int32 | None = None
    temperature: Finite | None = None
    top_p: Finite | None = None
    n: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def _is_served(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            if value is None or name in _REMARKS or self._means_nothing(name, value):
                continue
            neutral = " or ".join(repr(each) for each in _NEUTRAL.get(name, ()))
            raise InputError(
                "this parameter is not served here, and ignoring it would change the answer",
                field=name,
                value=value,
                allowed=f"{neutral or 'null'}, or to leave it out",
            )
        if self.stream_options is not None and not self.stream:
            raise InputError(
                "only a stream has stream options",
                field="stream_options",
                value="given",
                allowed="with stream = true",
            )
        return self

    def _means_nothing(self, name: str, value: JsonValue) -> bool:
        if name == "best_of":
            return value == self.num_samples and not isinstance(value, bool)
        return any(
            value == neutral and isinstance(value, bool) is isinstance(neutral, bool)
            for neutral in _NEUTRAL.get(name, ())
        )

    @property
    def num_samples(self) -> int:
        """Choices for each prompt."""
        return 1 if self.n is None else self.n

    @property
    def stops(self) -> tuple[str, ...]:
        """Texts before which a choice ends."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def settings(self, max_tokens: int | None) -> SamplingSettings:
        """How tokens are drawn."""
        return SamplingSettings(
            max_tokens=max_tokens,
            seed=self.seed,
            stop=list(self.stops) or None,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
        )


class ChatRequest(Generation):
    """POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Int32 | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[Int32, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise InputError(
                "the most probable tokens come with the log-probabilities",
                field="top_logprobs",
                value=self.top_logprobs,
                allowed="with logprobs = true",
            )
        given = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(given) > 1:
            raise InputError(
                "two lengths for one reply",
                field="max_completion_tokens",
                value=self.max_completion_tokens,
                allowed=f"the same as max_tokens = {self.max_tokens}, or only one of them",
            )
        return self

    @property
    def length(self) -> int | None:
        """Tokens of a reply; None: as many as the context holds."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


class CompletionRequest(Generation):
    """POST /v1/completions."""

    prompt: str | list[str] | list[TokenId] | list[list[TokenId]]
    logprobs: Annotated[Int32, Field(ge=0)] | None = None

    @property
    def prompts(self) -> tuple[str | tuple[int, ...], ...]:
        """One or several prompts, each a text or token ids.

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
            each if isinstance(each, str) else tuple(each)
            for each in self.prompt
            if not isinstance(each, int)
        )
