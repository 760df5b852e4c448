"""Settings for drawing tokens in OpenAI's and vLLM's fields. Unsupported fields are rejected by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from tinsmith.server.openai.grammars import grammar_of
from tinsmith.server.openai.text import Shown
from tinsmith.server.wire.body import Finite, Int32, Request, TokenId
from tinsmith.server.wire.bounds import FailFast
from tinsmith.server.wire.requests import MAX_SAMPLES
from tinsmith.server.wire.settings import AdjustmentSettings, GrammarSettings, SamplingSettings
from tinsmith.types.errors import InputError, perhaps

Count = Annotated[int, Field(ge=0, lt=2**31)]

_LARGEST = sys.float_info.max
REMARKS = frozenset(
    {
        "cache_salt",
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "spaces_between_special_tokens",
        "store",
        "user",
    }
)
"""Accepted and ignored, since they change no token: texts have no spaces between control tokens anyway."""

NEUTRAL: Mapping[str, tuple[JsonValue, ...]] = MappingProxyType(
    {
        "add_generation_prompt": (True,),
        "add_special_tokens": (False,),
        "allowed_token_ids": ([],),
        "bad_words": ([],),
        "continue_final_message": (False,),
        "echo": (False,),
        "function_call": ("none", "auto"),
        "functions": ([],),
        "length_penalty": (1, 1.0),
        "logprob_token_ids": ([],),
        "min_tokens": (0,),
        "modalities": (["text"],),
        "priority": (0,),
        "suffix": ("",),
        "tool_choice": ("none", "auto"),
        "tools": ([],),
        "use_beam_search": (False,),
        "vllm_xargs": ({},),
    }
)
"""Values with which an unknown parameter has no effect."""


class Sampling(Request):
    """Settings for drawing tokens, common to all requests for tokens."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", protected_namespaces=())

    max_tokens: Int32 | None = None
    temperature: Finite | None = None
    top_p: Finite | None = None
    top_k: Int32 | None = None
    """Top-k; 0 and -1 disable it."""
    min_p: Finite | None = None
    repetition_penalty: Finite | None = None
    presence_penalty: Finite | None = None
    frequency_penalty: Finite | None = None
    logit_bias: dict[str, JsonValue] | None = None
    """Bias by token id, written in decimal."""
    n: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] | None = None
    stop: str | FailFast[list[str]] | None = None
    stop_token_ids: FailFast[list[TokenId]] | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    """True removes control tokens from the text; None and False spell them."""
    seed: int | None = None
    prompt_logprobs: Count | None = None
    """Number of most probable tokens to return for every prompt token, besides its own log-probability."""
    response_format: JsonValue = None
    structured_outputs: JsonValue = None
    guided_json: JsonValue = None
    guided_regex: JsonValue = None
    guided_choice: JsonValue = None
    guided_grammar: JsonValue = None

    @model_validator(mode="after")
    def _is_served(self) -> Self:
        best_of: tuple[JsonValue, ...] = (self.num_samples,)
        check_extras(self.model_extra or {}, {**NEUTRAL, "best_of": best_of}, type(self).model_fields)
        if self.ignore_eos and (self.stops or self.stop_token_ids):
            raise InputError(
                "an answer that goes on after its end token cannot be stopped otherwise here",
                field="ignore_eos",
                value=True,
                allowed="without stop and stop_token_ids",
            )
        self.adjustments()
        return self

    @property
    def num_samples(self) -> int:
        """Choices per prompt."""
        return 1 if self.n is None else self.n

    @property
    def scores_prompt(self) -> bool:
        """True if any score of the prompt's tokens is needed."""
        return self.prompt_logprobs is not None

    @property
    def num_prompt_top(self) -> int:
        """Number of most probable tokens to return at every position of the prompt."""
        return self.prompt_logprobs or 0

    @property
    def stops(self) -> tuple[str, ...]:
        """Stop texts."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    def grammar(self) -> tuple[str, GrammarSettings] | None:
        """Return the name of the parameter that sets a grammar, and the grammar that every answer must match.

        Raises:
            InputError: for an invalid grammar.
        """
        return grammar_of(
            {
                "response_format": self.response_format,
                "structured_outputs": self.structured_outputs,
                "guided_json": self.guided_json,
                "guided_regex": self.guided_regex,
                "guided_choice": self.guided_choice,
                "guided_grammar": self.guided_grammar,
            }
        )

    @property
    def grammar_name(self) -> str | None:
        """Name of the parameter that sets a grammar."""
        grammar = self.grammar()
        return None if grammar is None else grammar[0]

    def adjustments(self) -> AdjustmentSettings | None:
        """Return the adjustments of the distribution; None if there are none.

        Raises:
            InputError: for an invalid grammar or bias.
        """
        neutral, grammar = AdjustmentSettings(), self.grammar()
        found = AdjustmentSettings(
            min_p=neutral.min_p if self.min_p is None else self.min_p,
            repetition_penalty=neutral.repetition_penalty
            if self.repetition_penalty is None
            else self.repetition_penalty,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            logit_bias=_biases(self.logit_bias or {}),
            grammar=None if grammar is None else grammar[1],
        )
        return None if found == neutral else found

    def settings(self, max_tokens: int | None) -> SamplingSettings:
        """Return the settings for drawing tokens."""
        never: list[JsonValue] | None = [] if self.ignore_eos else None
        return SamplingSettings(
            max_tokens=max_tokens,
            seed=self.seed,
            stop=list(self.stops) or never,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_k=self.top_k or -1,
            top_p=1.0 if self.top_p is None else self.top_p,
            adjustments=self.adjustments(),
        )


class StreamOptions(Request):
    """Contents of a stream besides the text."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class Generation(Sampling):
    """Fields common to both kinds of `/v1` request."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    """True to return the ids of the prompt's and of all drawn tokens."""
    return_tokens_as_token_ids: bool | None = None
    """True to spell tokens `token_id:N` in log-probabilities."""

    @model_validator(mode="after")
    def _is_answered(self) -> Self:
        check_stream(self.stream, self.stream_options)
        if self.stream and self.prompt_logprobs is not None:
            raise InputError(
                "prompt log-probabilities of this form are not available in a stream",
                field="prompt_logprobs",
                value=self.prompt_logprobs,
                allowed="without stream, or echo with logprobs on /v1/completions",
            )
        return self

    @property
    def num_drawn(self) -> int:
        """Samples per prompt: more than the choices if the best are selected."""
        return self.num_samples

    @property
    def include_usage(self) -> bool:
        """True if a stream ends with the token counts."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def tells_all(self) -> bool:
        """True to return every drawn token, not only those that begin in the text."""
        return bool(self.return_token_ids or self.return_tokens_as_token_ids)

    @property
    def shown(self) -> Shown:
        """Part of the drawn tokens that a client gets."""
        return Shown(
            control=not self.skip_special_tokens, stop=bool(self.include_stop_str_in_output), every_token=self.tells_all
        )


def check_extras(
    given: Mapping[str, JsonValue], neutral: Mapping[str, Sequence[JsonValue]], known: Iterable[str] = ()
) -> None:
    """Reject unknown parameters, unless they are remarks, null, or have a value in `neutral`.

    The error suggests the most similar of the `known` ones.

    Raises:
        InputError: naming the first.
    """
    for name, value in given.items():
        allowed = neutral.get(name, ())
        if (
            value is None
            or name in REMARKS
            or any(value == each and isinstance(value, bool) is isinstance(each, bool) for each in allowed)
        ):
            continue
        raise InputError(
            "this parameter is not supported here, and ignoring it would change the answer",
            field=name,
            value=value,
            allowed=f"{' or '.join(repr(each) for each in allowed) or 'null'}, or to leave it out",
            fix=None if name in neutral else perhaps(name, known),
        )


def check_stream(stream: bool | None, options: StreamOptions | None) -> None:
    """Reject unsupported stream options.

    Raises:
        InputError: without a stream, or for counts in every chunk.
    """
    if options is None:
        return
    if not stream:
        raise InputError(
            "only a stream has stream options", field="stream_options", value="given", allowed="with stream = true"
        )
    if options.continuous_usage_stats:
        raise InputError(
            "a stream sends its token counts once, at its end",
            field="stream_options.continuous_usage_stats",
            value=True,
            allowed="false; include_usage = true",
        )


def _biases(given: Mapping[str, JsonValue]) -> tuple[tuple[int, float], ...]:
    biases: dict[int, float] = {}
    for name, bias in given.items():
        if not name.isdecimal() or len(name) > 10 or int(name) in biases:
            raise InputError(
                "a bias belongs to a token id, each given once",
                field="logit_bias",
                value=name,
                allowed="token ids in decimals",
            )
        if isinstance(bias, bool) or not isinstance(bias, (int, float)) or not -_LARGEST <= bias <= _LARGEST:
            raise InputError("a bias is a number", field=f"logit_bias.{name}", value=bias, allowed="a finite number")
        biases[int(name)] = float(bias)
    return tuple(sorted(biases.items()))
