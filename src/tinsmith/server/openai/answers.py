"""Parts of answers in OpenAI's format: errors, choices, log-probabilities, usage. Nothing here samples."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from numpy.typing import NDArray

from tinsmith.renderers.model_text import ModelText
from tinsmith.server.access.limits import BusyError
from tinsmith.server.draws import Drawn, Scored
from tinsmith.server.openai.text import Choice, Grown
from tinsmith.server.wire.client_names import CHAT, Names, as_sent
from tinsmith.types.errors import BackendError, DiskFullError, TinsmithError, UnavailableError
from tinsmith.types.sampling import StopReason

Json = dict[str, object]
Handler = Callable[[Request], Awaitable[Response]]

IMPOSSIBLE = -9999.0
"""OpenAI's log-probability for an impossible token."""

OPENAI_PATHS = ("/v1/", "/inference/", "/tokenize", "/detokenize")
"""Prefixes of the paths whose errors have OpenAI's format."""


class ModelNotFoundError(Exception):
    """Error for a model that is not served; it lists those that are."""


def error_body(message: str, *, kind: str, param: str | None, code: str | None) -> Json:
    """Return an error in OpenAI's format."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refusal(error: TinsmithError | ModelNotFoundError, names: Names = CHAT) -> tuple[Json, int]:
    """Return an error's body and status; fields have the `names` that clients know."""
    if isinstance(error, ModelNotFoundError):
        kind, code = "invalid_request_error", "model_not_found"
        return error_body(str(error), kind=kind, param="model", code=code), 404
    error = as_sent(error, names)
    if isinstance(error, BusyError):
        kind, code = "rate_limit_error", "rate_limit_exceeded"
        return error_body(str(error), kind=kind, param=error.field, code=code), 429
    if isinstance(error, UnavailableError):
        return error_body(str(error), kind="server_error", param=None, code=None), 503
    if isinstance(error, DiskFullError):
        return error_body(str(error), kind="server_error", param=None, code=None), 507
    if isinstance(error, BackendError):
        return error_body(str(error), kind="server_error", param=None, code=None), 500
    param = (error.field or "").removeprefix("sampling_params.")
    param = None if param in ("", "body") else param
    return error_body(str(error), kind="invalid_request_error", param=param, code=None), 400


def error_answer(error: TinsmithError | ModelNotFoundError, names: Names = CHAT) -> JSONResponse:
    """Answer with an error; a header tells the SDK not to retry."""
    body, status = refusal(error, names)
    headers = None if status == 429 else {"x-should-retry": "false"}
    return JSONResponse(body, status, headers=headers)


Top = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Most probable tokens at one position, with their log-probabilities, descending."""


def answering(handler: Handler, names: Names = CHAT) -> Handler:
    """Answer errors in OpenAI's format, with the `names` that clients of this route know."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (TinsmithError, ModelNotFoundError) as error:
            return error_answer(error, names)

    return answer


@dataclass(slots=True)
class Progress:
    """Choice in progress: its text and its tokens."""

    choice: Choice
    prompt: tuple[int, ...]
    echoes: bool = False
    """True if the prompt's tokens come first."""
    drops: bool = False
    """True if the answer has no drawn tokens, only the prompt's."""
    grown: Grown | None = None
    """Latest growth; all of it if the tokens arrived together."""
    reason: StopReason | None = None
    scored: Scored | None = None
    tokens: list[int] = field(default_factory=list[int])
    logprobs: list[float | None] = field(default_factory=list[float | None])
    """Log-probabilities; None for a prompt's first token, and for a prompt without scores."""
    top: list[Top | None] = field(default_factory=list[Top | None])

    def __post_init__(self) -> None:
        if self.echoes:
            self.tokens = list(self.prompt)
            self.logprobs = [None] * len(self.prompt)
            self.top = [None] * len(self.prompt)

    @property
    def num_echoed(self) -> int:
        """Number of prompt tokens among its tokens."""
        return len(self.prompt) if self.echoes else 0

    @property
    def drawn(self) -> list[int]:
        """Drawn tokens."""
        return self.tokens[self.num_echoed :]

    @property
    def num_drawn(self) -> int:
        """Number of drawn tokens."""
        return len(self.tokens) - self.num_echoed

    @property
    def mean_logprob(self) -> float:
        """Mean log-probability of the drawn tokens; 0.0 if there are none."""
        logprobs = [p for p in self.logprobs[self.num_echoed :] if p is not None]
        return sum(logprobs) / len(logprobs) if logprobs else 0.0

    def add(self, drawn: Drawn) -> Grown:
        """Add drawn tokens; return the part that the client may get."""
        if drawn.scored is not None:
            self._score(drawn.scored)
        tokens = () if self.drops else drawn.tokens
        self.reason = StopReason.LENGTH if self.drops else drawn.stop_reason
        if not self.drops:
            self.tokens += tokens
            self.logprobs += drawn.logprobs
            self.top += drawn.top or [None] * len(tokens)
        self.grown = self.choice.add(tokens, self.reason)
        return self.grown

    def _score(self, scored: Scored) -> None:
        self.scored = scored
        if self.echoes:
            self.logprobs[1 : self.num_echoed] = scored.logprobs[1:].tolist()
            if scored.top is not None:
                rows = zip(scored.top.tokens[1:], scored.top.logprobs[1:], strict=True)
                self.top[1 : self.num_echoed] = list(rows)


def chat_logprobs(text: ModelText, progress: Progress, tokens: slice, k: int, *, as_ids: bool = False) -> Json:
    """Return log-probabilities in a chat's format; `as_ids` spells tokens `token_id:N`."""
    content: list[Json] = []
    for i in range(tokens.start, tokens.stop):
        top = [_entry(text, token, p, as_ids) for token, p in top_of(progress, i, k)]
        logprob = progress.logprobs[i]
        assert logprob is not None, "a chat echoes nothing"
        entry = _entry(text, progress.tokens[i], logprob, as_ids)
        content.append({**entry, "top_logprobs": top})
    return {"content": content, "refusal": None}


def completion_logprobs(text: ModelText, progress: Progress, tokens: slice, k: int, *, as_ids: bool = False) -> Json:
    """Return log-probabilities in a completion's format; null for a prompt's first token, which has none."""
    places = range(tokens.start, tokens.stop)
    return {
        "tokens": [_spelled(text, progress.tokens[i], as_ids, begins=i == progress.choice.first) for i in places],
        "token_logprobs": [None if p is None else finite(p) for p in progress.logprobs[tokens]],
        "top_logprobs": [
            None if progress.top[i] is None else _table(text, top_of(progress, i, k), as_ids) for i in places
        ]
        if k
        else None,
        "text_offset": progress.choice.offsets[tokens],
    }


def prompt_logprobs(text: ModelText | None, prompt: Sequence[int], scored: Scored, k: int) -> list[Json | None]:
    """Return the scores of a prompt's tokens in vLLM's format: each token by id, then the `k` most probable.

    Without `text`, tokens are not decoded.
    """
    entries: list[Json | None] = [None]
    for i, token in enumerate(prompt[1:], start=1):
        top = None if scored.top is None else (scored.top.tokens[i], scored.top.logprobs[i])
        best = _pairs(top, k)
        ranks = {each: rank for rank, (each, _) in enumerate(best, start=1)}
        entries.append(
            {
                str(each): {
                    "logprob": finite(p),
                    "rank": ranks.get(each),
                    "decoded_token": None if text is None else text.bytes_of(each).decode("utf-8", "replace"),
                }
                for each, p in dict([(token, float(scored.logprobs[i])), *best]).items()
            }
        )
    return entries


def usage(num_prompt: int, num_drawn: int) -> Json:
    """Return token counts; a prompt counts once for all its choices, and end tokens count."""
    return {"prompt_tokens": num_prompt, "completion_tokens": num_drawn, "total_tokens": num_prompt + num_drawn}


def finish_reason(reason: StopReason | None) -> str | None:
    """Return OpenAI's name for the reason of a choice's end."""
    return None if reason is None else reason.value


def model_entry(model: str, created: float, *, root: str, parent: str | None, length: int | None) -> Json:
    """Return the entry of a model in a list; `root`, `parent` and `max_model_len` are vLLM's."""
    return {
        "id": model,
        "object": "model",
        "created": int(created),
        "owned_by": "tinsmith",
        "root": root,
        "parent": parent,
        "max_model_len": length,
    }


def top_of(progress: Progress, i: int, k: int) -> Sequence[tuple[int, float]]:
    """Return the `k` most probable tokens at the position of token `i`."""
    return _pairs(progress.top[i], k)


def as_id(token: int) -> str:
    """Return a token's id in vLLM's spelling."""
    return f"token_id:{token}"


def _pairs(top: Top | None, k: int) -> Sequence[tuple[int, float]]:
    if top is None:
        return ()
    return list(zip(top[0].tolist(), top[1].tolist(), strict=True))[:k]


def _entry(text: ModelText, token: int, logprob: float, as_ids: bool) -> Json:
    raw = text.bytes_of(token)
    return {
        "token": as_id(token) if as_ids else raw.decode("utf-8", "replace"),
        "logprob": finite(logprob),
        "bytes": list(raw),
    }


def _table(text: ModelText, top: Sequence[tuple[int, float]], as_ids: bool) -> Json:
    """Return log-probabilities by spelling; of two tokens spelled alike, the less probable one goes by id."""
    table: Json = {}
    for token, p in top:
        spelled = _spelled(text, token, as_ids)
        table[as_id(token) if spelled in table else spelled] = finite(p)
    return table


def _spelled(text: ModelText, token: int, as_ids: bool, *, begins: bool = False) -> str:
    """Spell a token; bytes that are not text are escaped as OpenAI does, so that no two tokens look alike."""
    if as_ids:
        return as_id(token)
    raw = text.codec.first_bytes(token) if begins else text.bytes_of(token)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def finite(logprob: float) -> float:
    """Return a log-probability that JSON can represent."""
    return logprob if math.isfinite(logprob) else IMPOSSIBLE
