"""Bodies of JSON requests: how strict they are read, and what a wrong one is told."""

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
"""One hour to ten years."""


class Request(BaseModel):
    """Any request: frozen, without conversions between types, open to remarks."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", protected_namespaces=())


class Settings(BaseModel):
    """Settings of a computation: every field is known, or the request is refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=())


def parse_json(model: type[R], body: bytes) -> R:
    """Return the request that this JSON is.

    Raises:
        InputError: naming the first field that is wrong.
    """
    require_bounds(body)
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        refused = _refusal(error)
    try:
        raise refused
    finally:
        del refused, body  # an error that its own traceback leads to would hold the body until the next collection


def _refusal(wrong: ValidationError) -> InputError:
    # Without its input: that is all of the body, where a check of it failed.
    cause = wrong.errors(include_url=False, include_input=False)[0].get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause.with_traceback(None)
    first = wrong.errors(include_url=False)[0]
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part if part.isidentifier() else repr(part)}"
        for part in first["loc"]
    )
    value = first["input"]
    lost_number = first["type"] == "float_type" and value is None  # which JSON has for what is not finite
    return InputError(
        "this field is not known" if first["type"] == "extra_forbidden" else "a request is wrong",
        field=path.lstrip(".") or "body",
        value=value if isinstance(value, (str, int, float, bool, type(None))) else "...",
        allowed="a finite number; NaN and infinity arrive as null" if lost_number else first["msg"],
    )


def check_one_given(**given: object) -> None:
    """Refuse a request unless exactly one of these is not None."""
    if sum(value is not None for value in given.values()) != 1:
        raise InputError(
            "a request does not say what it is about",
            field=", ".join(given),
            value=tuple(given.values()),
            allowed=f"exactly one of {' and '.join(given)}",
        )
