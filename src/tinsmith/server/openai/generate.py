"""vLLM's `/inference/v1/generate`: token ids in, token ids and log-probabilities out, no text."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from tinsmith.server.direct import Found
from tinsmith.server.draws import Drawn, Scored
from tinsmith.server.openai.answers import Json, Top, as_id, finish_reason, finite, prompt_logprobs, refusal, usage
from tinsmith.server.openai.generation import Count, Sampling, StreamOptions, check_extras, check_stream
from tinsmith.server.openai.stream import DONE, event
from tinsmith.server.wire.body import Request, TokenId
from tinsmith.server.wire.bounds import FailFast
from tinsmith.server.wire.client_names import TOKENS
from tinsmith.types.errors import InputError, TinsmithError
from tinsmith.types.sampling import StopReason

_NEUTRAL: Mapping[str, tuple[JsonValue, ...]] = MappingProxyType({"output_mode": ("tokens",), "priority": (0,)})


class TokenSampling(Sampling):
    """Field `sampling_params` of a request for tokens."""

    logprobs: Count | None = None
    """Number of most probable tokens to list besides each drawn one."""
    detokenize: bool | None = None
    """Accepted and ignored: there is no text either way."""
    routed_experts_prompt_start: int | None = None
    """Accepted and ignored: no routing is returned."""

    @property
    def only_prompt(self) -> bool:
        """True if nothing is drawn, and only the prompt is returned."""
        return self.max_tokens == 0 and self.scores_prompt


class GenerateRequest(Request):
    """POST /inference/v1/generate."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", protected_namespaces=())

    model: str | None = None
    """Model name; None for the only one that is served."""
    token_ids: Annotated[FailFast[list[TokenId]], Field(min_length=1)]
    sampling_params: TokenSampling
    request_id: str | None = None
    """Echoed in the answer."""
    return_token_ids: bool | None = None
    """True to return the prompt's ids too."""
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def _is_served(self) -> Self:
        check_extras(self.model_extra or {}, _NEUTRAL, type(self).model_fields)
        check_stream(self.stream, self.stream_options)
        if self.stream and self.sampling_params.prompt_logprobs is not None:
            raise InputError(
                "prompt log-probabilities are not available in a stream",
                field="sampling_params.prompt_logprobs",
                value=self.sampling_params.prompt_logprobs,
                allowed="without stream",
            )
        return self


@dataclass(slots=True)
class Tokens:
    """Choice in progress."""

    tokens: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    top: list[Top] = field(default_factory=list[Top])
    reason: StopReason | None = None


@dataclass(slots=True, kw_only=True)
class TokensAnswer:
    """Request for tokens with all its choices so far."""

    body: GenerateRequest
    found: Found
    choices: tuple[Tokens, ...]
    request_id: str
    scored: Scored | None = None
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of(cls, body: GenerateRequest, found: Found) -> TokensAnswer:
        """Create the answer before any token."""
        choices = tuple(Tokens() for _ in range(body.sampling_params.num_samples))
        request_id = body.request_id or secrets.token_hex(16)
        return cls(body=body, found=found, choices=choices, request_id=request_id)

    def take(self, drawn: Drawn) -> None:
        """Add drawn tokens."""
        choice = self.choices[drawn.index]
        self.scored = drawn.scored or self.scored
        if self.body.sampling_params.only_prompt:
            choice.reason = StopReason.LENGTH
            return
        choice.tokens += drawn.tokens
        choice.logprobs += drawn.logprobs
        choice.top += drawn.top
        choice.reason = drawn.stop_reason

    def whole(self) -> Json:
        """Return the complete answer."""
        given = self.body.sampling_params
        answer: Json = {
            "request_id": self.request_id,
            "model": self.body.model or self.found.model,
            "created": self.created,
            "choices": [self._shown(i, 0, choice.reason) for i, choice in enumerate(self.choices)],
            "usage": self._usage(),
        }
        if given.prompt_logprobs is not None:
            assert self.scored is not None, "asked for with prompt_logprobs"
            prompt, k = self.body.token_ids, given.prompt_logprobs
            answer["prompt_logprobs"] = prompt_logprobs(None, prompt, self.scored, k)
        return answer | self._prompt_ids()

    def opening(self) -> Iterator[bytes]:
        """Yield a stream's first chunk: the prompt's ids, if requested."""
        if self.body.return_token_ids:
            yield event({"request_id": self.request_id, "choices": [], **self._prompt_ids()})

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """Add drawn tokens, and yield their chunk."""
        begin = len(self.choices[drawn.index].tokens)
        self.take(drawn)
        shown = self._shown(drawn.index, begin, self.choices[drawn.index].reason)
        yield event({"request_id": self.request_id, "choices": [shown]})

    def closing(self) -> Iterator[bytes]:
        """Yield the token counts, if requested, and the end."""
        if self.body.stream_options is not None and self.body.stream_options.include_usage:
            yield event({"request_id": self.request_id, "choices": [], "usage": self._usage()})
        yield DONE

    def failed(self, error: TinsmithError) -> bytes:
        """Return the error event."""
        return event(refusal(error, TOKENS)[0])

    def _shown(self, index: int, begin: int, reason: StopReason | None) -> Json:
        """Return a choice's tokens from number `begin` on."""
        choice, k = self.choices[index], self.body.sampling_params.logprobs
        return {
            "index": index,
            "token_ids": choice.tokens[begin:],
            "logprobs": None if k is None else {"content": self._content(choice, begin, k)},
            "finish_reason": finish_reason(reason),
        }

    def _content(self, choice: Tokens, begin: int, k: int) -> list[Json]:
        """Return the tokens' log-probabilities: `token` for clients of older vLLM, `token_id` for newer ones.

        The most probable tokens follow the drawn one, as in vLLM.
        """
        content: list[Json] = []
        for i in range(begin, len(choice.tokens)):
            token, logprob = choice.tokens[i], choice.logprobs[i]
            top = zip(*(each.tolist() for each in choice.top[i]), strict=True) if k else ()
            best = dict([(token, logprob), *top]) if k else {}
            alternatives = [_entry(each, p) for each, p in best.items()]
            content.append({**_entry(token, logprob), "top_logprobs": alternatives})
        return content

    def _prompt_ids(self) -> Json:
        return {"prompt_token_ids": self.body.token_ids} if self.body.return_token_ids else {}

    def _usage(self) -> Json:
        return usage(len(self.body.token_ids), sum(len(each.tokens) for each in self.choices))


def _entry(token: int, logprob: float) -> Json:
    return {"token": as_id(token), "token_id": token, "logprob": finite(logprob), "bytes": None}
