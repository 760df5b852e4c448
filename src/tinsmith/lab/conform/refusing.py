"""What the SDK raises for a user's mistake, and the server's words in it."""

from __future__ import annotations

import re
from typing import Final

import httpx
import tinker

USER_ERRORS: Final = (
    tinker.BadRequestError,
    tinker.NotFoundError,
    tinker.UnprocessableEntityError,
    tinker.PermissionDeniedError,
    tinker.RequestFailedError,
)
"""Those that the SDK raises at once and never retries."""
FAILURES: Final = (
    tinker.TinkerError,
    httpx.HTTPError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    AssertionError,
)
"""All that the SDK is known to raise where an answer is not as it expects: it reads much of it unchecked."""
_MOST: Final = 160
_SDKS_OWN: Final = re.compile(r"^Request failed: | for self\.request_id=.*", re.DOTALL)
"""What the SDK writes around the server's words."""


def is_refusal(error: Exception) -> bool:
    """Whether a server said no, and not that it failed.

    A 404 without a route's own words, and a failed request of another category, are failures.
    """
    if isinstance(error, tinker.RequestFailedError):
        return error.category is tinker.types.RequestErrorCategory.User
    return isinstance(error, USER_ERRORS)


def words_of(error: BaseException) -> str:
    """Return what a server said, on one line and not too long."""
    said: object = str(error)
    if isinstance(error, tinker.RequestFailedError):
        said = _SDKS_OWN.sub("", error.message)
    if isinstance(error, tinker.APIStatusError) and isinstance(error.body, dict):
        body: dict[str, object] = error.body  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        said = body.get("detail") or body.get("error") or body.get("message") or said
    line = " ".join(str(said).split())
    return line if len(line) <= _MOST else line[: _MOST - 3] + "..."
