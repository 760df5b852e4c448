"""Knows how one call to an OpenAI-compatible endpoint goes: its body, its answer, what a failure means.

The key goes into one header and nowhere else: no message, no repr, no file holds it.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import httpx

from tinsmith.lab.judge.prompting import Question
from tinsmith.lab.judge.records import FailureCause
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.http_answers import ENCODINGS, BoundedBody, retry_after, without_quotes

OPENAI_URL: Final = "https://api.openai.com/v1"

_POOL: Final = 2
"""Connections of one client: httpx looks at all of a client's connections for each call, several times over."""
_LONGEST_DETAIL: Final = 200
_LARGEST_ANSWER: Final = 8 << 20  # Bytes of an answer's body, decompressed.
_PASSING: Final = {408: FailureCause.TIMED_OUT, 429: FailureCause.RATE_LIMITED}
"""Causes of statuses below 500 that another attempt may change."""
_KEY_STATUS: Final = frozenset({401, 403})
_ANSWERED_IN_BODY: Final = frozenset({400, 422})
"""Statuses whose body may name a field that the endpoint does not take."""
TOKEN_LIMIT: Final = "max_completion_tokens"
OLD_TOKEN_LIMIT: Final = "max_tokens"  # The name of TOKEN_LIMIT at endpoints that do not know it.
OPTIONAL: Final = ("temperature", "response_format", TOKEN_LIMIT)
"""Fields that some endpoints or models refuse (reasoning models a temperature), and that a call can do without."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A call without a text."""

    cause: FailureCause
    detail: str
    again: bool  # True if another attempt may go better.
    retry_after: float | None = None
    drop: frozenset[str] = frozenset()  # Optional fields that the endpoint names as the reason.
    usage: Usage | None = None  # Token counts that came all the same; None: there were none.
    unbilled: bool = False  # True if no token was written: the endpoint declined the call, or was never reached.
    status: int | None = None  # The status that an error inside a 200 answer names.


class Endpoint:
    """One address, one model, at most so many calls at once; used and closed on one event loop."""

    def __init__(self, *, base_url: str, api_key: str | None, model: str, timeout_s: float, most: int) -> None:
        url = checked_url(base_url)
        if api_key is None and url.host == httpx.URL(OPENAI_URL).host:
            fix = "set it in the environment, or judge_base_url to an endpoint without keys"
            raise ConfigError("this judge needs a key", field="OPENAI_API_KEY", fix=fix)
        self._url = f"{str(url).rstrip('/')}/chat/completions"
        self._model = model
        self._timeout_s = timeout_s
        key = api_key.strip() if api_key else ""
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ConfigError("the key has characters that no header may hold (not shown)", field="OPENAI_API_KEY")
        self._key = key or None
        # A proxy of the environment has no business between this machine and itself.
        environment = url.host not in ("localhost", "127.0.0.1", "::1")
        context = httpx.create_ssl_context(trust_env=environment)
        self._clients = [
            httpx.AsyncClient(
                headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
                timeout=httpx.Timeout(timeout_s),
                limits=httpx.Limits(max_connections=_POOL, max_keepalive_connections=_POOL),
                trust_env=environment,
                verify=context,
            )
            for _ in range(math.ceil(most / _POOL))
        ]
        self._busy = [0] * len(self._clients)

    def __repr__(self) -> str:
        return f"Endpoint({self._url!r}, model={self._model!r})"

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.aclose()

    async def ask(
        self,
        question: Question[Any],
        *,
        temperature: float,
        max_tokens: int | None,
        without: frozenset[str],
        wall: float,
    ) -> Reply | Trouble:
        """Send one call, leaving out the optional fields in `without`; raises nothing of the network's."""
        body: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": "system", "content": question.system}, {"role": "user", "content": question.user}],
            "temperature": temperature,
            "response_format": question.form.response_format,
        }
        if max_tokens is not None:
            body[OLD_TOKEN_LIMIT if TOKEN_LIMIT in without else TOKEN_LIMIT] = max_tokens
        sent = {name: value for name, value in body.items() if name not in without}
        try:
            # httpx limits each read; an endpoint that drips bytes must not take longer either.
            async with asyncio.timeout(self._timeout_s):
                response, content = await self._post(json.dumps(sent).encode())
        except (TimeoutError, httpx.TimeoutException) as error:
            detail = f"no answer in {self._timeout_s:g} s"
            return Trouble(FailureCause.TIMED_OUT, detail, again=True, unbilled=isinstance(error, httpx.ConnectTimeout))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            detail = f"the connection failed: {type(error).__name__}"
            unbilled = isinstance(error, httpx.ConnectError)
            return Trouble(FailureCause.DISCONNECTED, detail, again=True, unbilled=unbilled)
        except DataError as error:
            return Trouble(FailureCause.NO_CONTENT, error.what, again=False)
        if response.status_code != 200:
            return self._trouble(response, response.status_code, content, frozenset(sent), question.user, wall)
        found = read_completion(content)
        if isinstance(found, Reply):
            return found
        if found.status is not None:
            return self._trouble(response, found.status, content, frozenset(sent), question.user, wall)
        return replace(found, detail=self._clean(found.detail, question.user))

    async def _post(self, content: bytes) -> tuple[httpx.Response, bytes]:
        """Send by the pool with the fewest calls under way; return the answer and its body."""
        pool = min(range(len(self._busy)), key=self._busy.__getitem__)
        self._busy[pool] += 1
        headers = {"Content-Type": "application/json", "Accept-Encoding": ENCODINGS}
        try:
            async with self._clients[pool].stream("POST", self._url, content=content, headers=headers) as response:
                body = BoundedBody(response.headers.get("content-encoding"), _LARGEST_ANSWER)
                async for chunk in response.aiter_raw():
                    body.add(chunk)
                return response, body.whole()
        finally:
            self._busy[pool] -= 1

    def _trouble(
        self, response: httpx.Response, status: int, content: bytes, sent: frozenset[str], text: str, wall: float
    ) -> Trouble:
        message, fields = read_error(content)
        detail = f"status {status}" + (f": {self._clean(message, text)}" if message else "")
        if status in _PASSING or status >= 500:
            wait = retry_after(response.headers.get("retry-after"), response.headers.get("date"), wall)
            return Trouble(_PASSING.get(status, FailureCause.SERVER_ERROR), detail, True, wait, unbilled=True)
        drop = frozenset[str]()
        if status in _KEY_STATUS:
            # Endpoints repeat parts of it in this answer.
            detail = f"status {status}: the endpoint does not take the key"
        if 300 <= status < 400:
            target = self._clean(response.headers.get("location", ""), "")
            detail = f"status {status}: the endpoint has moved" + (f" to {target}" if target else "")
        if status in _ANSWERED_IN_BODY:
            # By the refusal's own mark, or by its message where there is none; it may repeat the question.
            named = fields or {one for one in OPTIONAL if re.search(rf"\b{one}\b", message) and one not in text}
            drop = sent.intersection(named, OPTIONAL)
        return Trouble(FailureCause.REFUSED, detail, again=False, drop=drop, unbilled=True)

    def _clean(self, message: str, text: str) -> str:
        safe = message.replace(self._key, "***") if self._key else message
        return without_quotes(_one_line(safe), _one_line(text), _LONGEST_DETAIL)


def checked_url(base_url: str) -> httpx.URL:
    """Return the address of a judge."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query:
        what = "this is not the address of a judge (not shown, it may hold a secret)"
        allowed = "http:// or https://, no user, password or query"
        raise ConfigError(what, field="judge_base_url", allowed=allowed, fix=f"for example {OPENAI_URL}")
    return url


_MOST_TOKENS: Final = 2**53
_MESSAGE_KEYS: Final = ("error", "errors", "detail", "message", "msg", "error_description", "title")
"""Fields in which endpoints put an error's text, the first that has one: OpenAI, FastAPI, problem+json, OAuth."""
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


def read_completion(content: bytes) -> Reply | Trouble:
    """Read the body of a 200 answer; one without a text is billed all the same."""
    body = _object(_json(content))
    counted = _object(body.get("usage"))
    prompt, completion, total = (_count(counted.get(f"{of}_tokens")) for of in ("prompt", "completion", "total"))
    if prompt is not None and total is not None:
        # Some endpoints bill hidden reasoning and report it in the total alone.
        completion = max(completion or 0, total - prompt)
    usage = Usage(prompt, completion)
    choices = _list(body.get("choices"))
    if not choices:
        error = _object(body.get("error"))
        code = error.get("code")
        message = read_error(content)[0] if "error" in body else "the answer has no choices"
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        return Trouble(FailureCause.NO_CONTENT, message, again=True, usage=usage, status=status)
    choice = _object(choices[0])
    finish = choice.get("finish_reason")
    ending = _ENDINGS.get(finish) if isinstance(finish, str) else None
    message = _object(choice.get("message"))
    text, refusal = _text(message.get("content")), message.get("refusal")
    refusal = refusal if isinstance(refusal, str) and refusal.strip() else _refusal(message.get("content"))
    if refusal is not None:
        return Trouble(FailureCause.DECLINED, f"the judge declined: {refusal}", again=False, usage=usage)
    if text is not None:
        return Reply(text, usage, ending)
    reason = f" (finish_reason {finish})" if isinstance(finish, str) else ""
    cause = ending or FailureCause.NO_CONTENT
    # A filter's refusal is repeated by repeating the call; a model that thought for too long may think for less.
    again = cause is not FailureCause.FILTERED
    return Trouble(cause, f"the answer holds no text{reason}", again=again, usage=usage)


def read_error(content: bytes) -> tuple[str, frozenset[str]]:
    """Return the message of a refusal, and the fields of the request that it names beside.

    Of any shape: OpenAI's, FastAPI's list, a plain text, a page of a proxy.
    """
    value = _json(content)
    if value is None:
        text = content[:100_000].decode("utf-8", "replace")
        if text.lstrip().startswith("<"):
            titled = _TITLE.search(text)
            text = _TAG.sub(" ", titled[1] if titled else text)
        return _one_line(text), frozenset()
    fields: set[str] = set()
    texts = _messages(value, fields, 0)
    message = "; ".join(texts) if texts else content[:1000].decode("utf-8", "replace")
    return _one_line(message), frozenset(fields - {"body", "query"})


def _messages(value: object, fields: set[str], depth: int) -> list[str]:
    """Return the texts of an error, and add the fields that it names."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        return [text for one in _list(value)[:_MOST_ENTRIES] for text in _messages(one, fields, depth + 1)]
    parts = _object(value)
    if isinstance(param := parts.get("param"), str):
        fields.add(re.split(r"[.\[]", param, maxsplit=1)[0])
    place = [one for one in _list(parts.get("loc")) if isinstance(one, str)]
    fields.update(place)
    texts = next((found for key in _MESSAGE_KEYS if (found := _messages(parts.get(key), fields, depth + 1))), [])
    return [f"{'.'.join(place)}: {text}" for text in texts] if place else texts


def _text(content: object) -> str | None:
    """Return a message's text, joined where it comes in parts; None where there is none."""
    if isinstance(content, str):
        return content
    parts = [one for one in map(_object, _list(content)) if one.get("type", "text") in ("text", "output_text")]
    found = [text for part in parts if isinstance(text := part.get("text"), str)]
    return "".join(found) if found else None


def _refusal(content: object) -> str | None:
    texts = [part.get("refusal") for part in map(_object, _list(content))]
    return next((text for text in texts if isinstance(text, str) and text.strip()), None)


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


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _one_line(text: str) -> str:
    return " ".join(text.split())
