"""Errors in Anthropic's format."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fastapi.responses import JSONResponse

from tinsmith.server.openai.answers import Json, ModelNotFoundError
from tinsmith.server.openai.answers import refusal as openai_refusal
from tinsmith.server.wire.client_names import MESSAGE, as_sent
from tinsmith.types.errors import TinsmithError

PATH = "/v1/messages"
"""Prefix of the paths whose errors have Anthropic's format."""

_KINDS: Mapping[int, str] = MappingProxyType(
    {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        500: "api_error",
        503: "api_error",
        507: "api_error",
    }
)


def error_answer(message: str, status: int) -> JSONResponse:
    """Answer with an error; unless a retry makes sense, a header tells the SDK not to."""
    return JSONResponse(_body(message, status), status, headers=_headers(status))


def refusal(error: TinsmithError | ModelNotFoundError) -> tuple[Json, int]:
    """Return the error body and the HTTP status, which is that of OpenAI's routes."""
    status = openai_refusal(error)[1]
    known = as_sent(error, MESSAGE) if isinstance(error, TinsmithError) else error
    return _body(str(known), status), status


def refused(error: TinsmithError | ModelNotFoundError) -> JSONResponse:
    """Answer with an error; unless a retry makes sense, a header tells the SDK not to."""
    body, status = refusal(error)
    return JSONResponse(body, status, headers=_headers(status))


def _headers(status: int) -> dict[str, str] | None:
    return None if status == 429 else {"x-should-retry": "false"}


def _body(message: str, status: int) -> Json:
    kind = _KINDS.get(status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}
