"""Answers in OpenAI's words: errors, choices, log-probabilities, usage. Nothing here samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from fastapi.responses import JSONResponse
from numpy.typing import NDArray

from tinsmith.server.draws import Drawn
from tinsmith.server.limits import BusyError
from tinsmith.server.openai.text import Choice, Grown, ModelText
from tinsmith.types.errors import BackendError, TinsmithError
from tinsmith.types.sampling import StopReason

Json = dict[str, object]

IMPOSSIBLE = -9999.0
"""OpenAI's log-probability of what has none."""

_PARAMS = {"num_samples": "n", "topk_logprobs": "top_logprobs", "body": None, "base_model": "model"}


class ModelNotFoundError(Exception):
    """The model that was asked for is not here; says why, and what is."""


def error_body(message: str, *, kind: str, param: str | None, code: str | None) -> Json:
    """An error in OpenAI's shape."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refusal(error: TinsmithError | ModelNotFoundError) -> tuple[Json, int]:
    """What a client is told of an error, and the status."""
    if isinstance(error, ModelNotFoundError):
        kind, code = "invalid_request_error", "model_not_found"
        return error_body(str(error), kind=kind, param="model", code=code), 404
    if isinstance(error, BusyError):
        kind, code = "rate_limit_error", "rate_limit_exceeded"
        return error_body(str(error), kind=kind, param=error.field, code=code), 429
    if isinstance(error, BackendError):
        return error_body(str(error), kind="server_error", param=None, code=None), 500
    param = (error.field or "").removeprefix("sampling_params.") or None
    return (
        error_body(
            str(error),
            kind="invalid_request_error",
            param=_PARAMS.get(param, param) if param else None,
            code=None,
        ),
        400,
    )


def error_answer(error: TinsmithError | ModelNotFoundError) -> JSONResponse:
    """Refuse a request; the SDK is told not to try again."""
    body, status = refusal(error)
    headers = None if status == 429 else {"x-should-retry": "false"}
    return JSONResponse(body, status, headers=headers)


@dataclass(slots=True)
class Progress:
    """One choice: its text, and what is known of its tokens."""

    choice: Choice
    grown: Grown | None = None
    """What the last look added: all of it, where the tokens came at once."""
    reason: StopReason | None = None
    drawn: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    top: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = field(
        default_factory=list[tuple[NDArray[np.int32], NDArray[np.float32]]]
    )

    def add(self, drawn: Drawn) -> Grown:
        """Take what was drawn; return what the client may see of it."""
        self.drawn += drawn.tokens
        self.logprobs += drawn.logprobs
        self.top += drawn.top
        self.reason = drawn.stop_reason
        self.grown = self.choice.add(drawn.tokens, drawn.stop_reason)
        return self.grown


def chat_logprobs(text: ModelText, progress: Progress, tokens: slice, k: int) -> Json:
    """Log-probabilities of these tokens, as a chat tells them."""
    content: list[Json] = []
    for i in range(tokens.start, tokens.stop):
        top = [_entry(text, token, p) for token, p in _top(progress, i, k)]
        entry = _entry(text, progress.drawn[i], progress.logprobs[i])
        content.append({**entry, "top_logprobs": top})
    return {"content": content, "refusal": None}


def completion_logprobs(text: ModelText, progress: Progress, tokens: slice, k: int) -> Json:
    """Log-probabilities of these tokens, as a completion tells them."""
    top = [
        {_spelled(text, token): _finite(p) for token, p in _top(progress, i, k)}
        for i in range(tokens.start, tokens.stop)
    ]
    return {
        "tokens": [_spelled(text, token) for token in progress.drawn[tokens]],
        "token_logprobs": [_finite(p) for p in progress.logprobs[tokens]],
        "top_logprobs": top if k else None,
        "text_offset": progress.choice.offsets[tokens],
    }


def usage(num_prompt: int, num_drawn: int) -> Json:
    """Token counts; a prompt counts once, however many choices it has, and end tokens count."""
    return {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_drawn,
        "total_tokens": num_prompt + num_drawn,
    }


def finish_reason(reason: StopReason | None) -> str | None:
    """OpenAI's word for why a choice ended."""
    return None if reason is None else reason.value


def model_entry(model: str, created: float) -> Json:
    """One model, as it is listed."""
    return {"id": model, "object": "model", "created": int(created), "owned_by": "tinsmith"}


def _top(progress: Progress, i: int, k: int) -> Sequence[tuple[int, float]]:
    if not k:
        return ()
    tokens, logprobs = progress.top[i]
    return list(zip(tokens.tolist(), logprobs.tolist(), strict=True))[:k]


def _entry(text: ModelText, token: int, logprob: float) -> Json:
    raw = text.bytes_of(token)
    return {
        "token": raw.decode("utf-8", "replace"),
        "logprob": _finite(logprob),
        "bytes": list(raw),
    }


def _spelled(text: ModelText, token: int) -> str:
    """A token's text; OpenAI's spelling for bytes that are not text by themselves, so that no two tokens look alike."""
    raw = text.bytes_of(token)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else IMPOSSIBLE
