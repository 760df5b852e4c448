"""Verdicts on a question to a server: four words and how it was seen; and refusals, in the server's own words."""

from __future__ import annotations

import re
from concurrent.futures import CancelledError
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import Final

import httpx
import tinker
from google.protobuf.message import Error as ProtobufError


class Word(StrEnum):
    """Outcome of a check: the server's treatment of a request."""

    HONOURED = "honoured"  # It computes what the documentation says.
    DIFFERS = "differs"
    """It does otherwise and that can be seen: an error of its own, no answer, another arithmetic, or not to be told."""
    REFUSED = "refused"  # It says in the way of the protocol that it does not.
    SILENT = "silent difference"  # It accepts the request, and computes something else or ignores a part of it.


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word, and what it rests on."""

    word: Word
    how: str


ROUNDING: Final = 1e-4  # Nats that two float32 computations of one number may be apart.


COARSE: Final = 0.1  # Nats that two computations of one number in bfloat16 may be apart; more is another number.


def honoured(how: str) -> Verdict:
    """Return that a server does what is written."""
    return Verdict(Word.HONOURED, how)


def differs(how: str) -> Verdict:
    """Return that a server visibly does otherwise."""
    return Verdict(Word.DIFFERS, how)


def silent(how: str) -> Verdict:
    """Return that a server does otherwise without a word."""
    return Verdict(Word.SILENT, how)


def graded(distance: float, same: str, *, unit: str = "nats") -> Verdict:
    """Judge two numbers that must be one: `same` says what agrees, `distance` is how far they are apart.

    >>> graded(0.0, "both texts").how, graded(0.02, "both texts").word.value, graded(2.0, "both texts").word.value
    ('both texts: exactly', 'differs', 'silent difference')
    """
    if distance == 0.0:
        return honoured(f"{same}: exactly")
    apart = f"{same}: {distance:.2g} {unit} apart"
    if distance <= ROUNDING:
        return honoured(apart)
    return differs(f"{apart}, another rounding") if distance <= COARSE else silent(apart)


def effect(moved: float, noise: float, what: str) -> Verdict:
    """Judge an option that must change the result: `moved` is by how much it did, `noise` what repeating alone does.

    >>> effect(0.0, 0.0, "clipping").word.value, effect(0.3, 1e-6, "clipping").word.value
    ('silent difference', 'honoured')
    """
    if moved > max(ROUNDING, 10.0 * noise):
        return honoured(f"{what} changes the log-probabilities by {moved:.2g} nats")
    if noise > ROUNDING:
        return differs(f"cannot be told: equal steps are {noise:.2g} nats apart themselves")
    return silent(f"{what} is accepted and changes nothing ({moved:.2g} nats)")


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
    ProtobufError,
    CancelledError,
    OSError,
    ImportError,
    LookupError,
    ArithmeticError,
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
_RETRIED: Final = re.compile(r"Error retrieving result: Error code: (\d+) - (.*) \(status \d+\) for self", re.DOTALL)
"""What the SDK says once it has retried for a result that a server refuses with a status of HTTP."""
_DETAIL: Final = re.compile(r"""^\{'detail': (["'])(.*)\1\}$""", re.DOTALL)
_UNEXPECTED: Final = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")


def is_refusal(error: Exception) -> bool:
    """Whether a server said no, and not that it failed.

    A 404 without a route's own words, and a failed request of another category, are failures.
    """
    if isinstance(error, tinker.RequestFailedError):
        return error.category is tinker.types.RequestErrorCategory.User
    return isinstance(error, USER_ERRORS)


def failure(error: Exception) -> str:
    """Return what is said of an answer that is no refusal: the client's own lack, or whose words in what form.

    >>> failure(ValueError("one too many"))
    'ValueError: one too many'
    """
    lacking = _lacking(error)
    if lacking is not None:
        return f"cannot be told: this client (tinker {tinker.__version__}) has no {lacking}"
    found = _RETRIED.search(str(error))
    if found is not None:
        detail = _DETAIL.match(found[2])
        said = _shortened(detail[2] if detail else found[2])
        return f"HTTP {found[1]} where a result is asked for, which the client retries: {said}"
    return f"{type(error).__name__}: {words_of(error)}"


def _lacking(error: Exception) -> str | None:
    """Return what an older client does not know."""
    if isinstance(error, AttributeError):
        owner = error.obj
        home = owner.__name__ if isinstance(owner, ModuleType) else type(owner).__module__
        return error.name if home.partition(".")[0] == "tinker" else None
    if isinstance(error, ImportError):
        return error.name if (error.name or "").partition(".")[0] == "tinker" else None
    found = _UNEXPECTED.search(str(error)) if isinstance(error, TypeError) else None
    return None if found is None else f"{found[2]} of {found[1]}"


def words_of(error: BaseException) -> str:
    """Return what a server said, on one line and not too long."""
    said: object = str(error)
    if isinstance(error, tinker.RequestFailedError):
        said = _SDKS_OWN.sub("", error.message)
    if isinstance(error, tinker.APIStatusError) and isinstance(error.body, dict):
        body: dict[str, object] = error.body  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        said = body.get("detail") or body.get("error") or body.get("message") or said
    return _shortened(said)


def _shortened(said: object) -> str:
    line = " ".join(str(said).split())
    return line if len(line) <= _MOST else line[: _MOST - 3] + "..."
