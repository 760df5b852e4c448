"""Parsing of JSON requests: their strictness, and the errors for invalid ones."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tinsmith.server.wire.bounds import require_bounds
from tinsmith.types.errors import InputError

R = TypeVar("R", bound="Request")

SeqId = Annotated[int, Field(ge=0, lt=2**63)]
TrainingSeqId = Annotated[int, Field(ge=1, lt=2**63)]
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
TtlSeconds = Annotated[int, Field(ge=3600, le=3653 * 24 * 3600)]
"""TTL in seconds: one hour to ten years."""


class Request(BaseModel):
    """Base of all requests: frozen, without type conversions, ignoring unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", protected_namespaces=())


class Settings(BaseModel):
    """Settings of a computation: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=())


def parse_json(model: type[R], body: bytes) -> R:
    """Parse a request from JSON.

    Raises:
        InputError: naming the first invalid field.
    """
    require_bounds(body)
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        refused = _refusal(error)
    try:
        raise refused
    finally:
        del refused, body  # a cycle between error and traceback would hold the body until the next collection


def _refusal(wrong: ValidationError) -> InputError:
    # Without its input, which is the whole body if a check of it failed.
    cause = wrong.errors(include_url=False, include_input=False)[0].get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause.with_traceback(None)
    first = wrong.errors(include_url=False)[0]
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part if part.isidentifier() else repr(part)}"
        for part in first["loc"]
    )
    value = first["input"]
    lost_number = first["type"] == "float_type" and value is None  # JSON has no other spelling for non-finite numbers
    return InputError(
        "this field is not known" if first["type"] == "extra_forbidden" else "a request is wrong",
        field=path.lstrip(".") or "body",
        value=value if isinstance(value, (str, int, float, bool, type(None))) else "...",
        allowed="a finite number; NaN and infinity arrive as null" if lost_number else first["msg"],
    )


def check_one_given(**given: object) -> None:
    """Reject a request unless exactly one of these is not None."""
    if sum(value is not None for value in given.values()) != 1:
        raise InputError(
            "a request does not say what it is about",
            field=", ".join(given),
            value=tuple(given.values()),
            allowed=f"exactly one of {' and '.join(given)}",
        )
