"""Bodies of an OpenAI-compatible endpoint: a reply with its token counts, or the reason why there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from tinsmith.lab.judge.records import FailureCause

_MOST_TOKENS: Final = 2**53
_MESSAGE_KEYS: Final = ("error", "errors", "detail", "message", "msg", "error_description", "title")
"""Where endpoints put an error's text, the first that has one: OpenAI, FastAPI, problem+json, OAuth."""
_DEEPEST: Final = 4
_MOST_ENTRIES: Final = 8
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_ENDINGS: Final[Mapping[str, FailureCause]] = {
    "length": FailureCause.CUT_OFF,
    "max_tokens": FailureCause.CUT_OFF,
    "content_filter": FailureCause.FILTERED,
}
"""A failure's cause by `finish_reason`, where the text is missing or cannot be read."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one call; None where the endpoint does not report them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None  # Hidden reasoning included.


@dataclass(frozen=True, slots=True)
class Reply:
    """A text with its token counts."""

    text: str
    usage: Usage
    ending: FailureCause | None = None  # Why the text may be incomplete, by the endpoint's `finish_reason`.


@dataclass(frozen=True, slots=True)
class NoText:
    """A chat completion without a text, and why; its tokens are billed all the same."""

    cause: FailureCause
    detail: str
    usage: Usage
    status: int | None = None  # The status that an error inside a 200 answer names.


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An endpoint's own words on a refusal."""

    message: str
    fields: frozenset[str]  # Fields of the request that the body names beside the message.


def read_completion(content: bytes) -> Reply | NoText:
    """Read the body of a 200 answer."""
    body = _object(_json(content))
    usage = _usage(_object(body.get("usage")))
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        error = _object(body.get("error"))
        code = error.get("code")
        message = read_error(content).message if "error" in body else "the answer has no choices"
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        return NoText(FailureCause.NO_CONTENT, message, usage, status)
    choice = _object(cast("list[object]", choices)[0])
    finish = choice.get("finish_reason")
    ending = _ENDINGS.get(finish) if isinstance(finish, str) else None
    message = _object(choice.get("message"))
    text, refusal = _text(message.get("content")), message.get("refusal")
    refusal = refusal if isinstance(refusal, str) and refusal.strip() else _refusal(message.get("content"))
    if refusal is not None:
        return NoText(FailureCause.DECLINED, f"the judge declined: {refusal}", usage)
    if text is not None:
        return Reply(text, usage, ending)
    what = (
        f"the answer holds no text (finish_reason {finish})" if isinstance(finish, str) else "the answer holds no text"
    )
    return NoText(ending or FailureCause.NO_CONTENT, what, usage)


def read_error(content: bytes) -> ErrorBody:
    """Read the body of a refusal, whatever its shape: OpenAI's, FastAPI's list, a plain text, a page of a proxy."""
    value = _json(content)
    if value is None:
        text = content[:100_000].decode("utf-8", "replace")
        if text.lstrip().startswith("<"):
            titled = _TITLE.search(text)
            text = _TAG.sub(" ", titled[1] if titled else text)
        return ErrorBody(_one_line(text), frozenset())
    fields: set[str] = set()
    texts = _messages(value, fields, 0)
    message = "; ".join(texts) if texts else content[:1000].decode("utf-8", "replace")
    return ErrorBody(_one_line(message), frozenset(fields - {"body", "query"}))


def _messages(value: object, fields: set[str], depth: int) -> list[str]:
    """Return the texts of an error, and add the fields that it names."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        entries = cast("list[object]", value)[:_MOST_ENTRIES]
        return [text for one in entries for text in _messages(one, fields, depth + 1)]
    parts = _object(value)
    param, loc = parts.get("param"), parts.get("loc")
    if isinstance(param, str):
        fields.add(re.split(r"[.\[]", param, maxsplit=1)[0])
    place = [one for one in cast("list[object]", loc) if isinstance(one, str)] if isinstance(loc, list) else []
    fields.update(place)
    texts = next((found for key in _MESSAGE_KEYS if (found := _messages(parts.get(key), fields, depth + 1))), [])
    return [f"{'.'.join(place)}: {text}" for text in texts] if place else texts


def _text(content: object) -> str | None:
    """Return a message's text, joined where it comes in parts; None where there is none."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in _parts(content) if part.get("type", "text") in ("text", "output_text")]
    found = [text for text in texts if isinstance(text, str)]
    return "".join(found) if found else None


def _refusal(content: object) -> str | None:
    texts = [part.get("refusal") for part in _parts(content)]
    return next((text for text in texts if isinstance(text, str) and text.strip()), None)


def _parts(content: object) -> list[Mapping[str, object]]:
    return [_object(part) for part in cast("list[object]", content)] if isinstance(content, list) else []


def _usage(usage: Mapping[str, object]) -> Usage:
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    if prompt is not None and total is not None:
        # Some endpoints bill hidden reasoning and report it in the total alone.
        completion = max(completion or 0, total - prompt)
    return Usage(prompt, completion)


def _count(value: object) -> int | None:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return whole if isinstance(whole, int) and not isinstance(whole, bool) and 0 <= whole <= _MOST_TOKENS else None


def _json(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _one_line(text: str) -> str:
    return " ".join(text.split())
