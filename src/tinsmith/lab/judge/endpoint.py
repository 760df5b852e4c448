"""Knows how one call to an OpenAI-compatible endpoint goes: its body, its answer, what a failure means.

The key goes into one header and nowhere else: no message, no repr, no file holds it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

import httpx

from tinsmith.lab.judge.limits import retry_after
from tinsmith.lab.judge.prompting import JudgePrompt
from tinsmith.lab.judge.verdicts import FailureCause
from tinsmith.types.errors import ConfigError

OPENAI_URL: Final = "https://api.openai.com/v1"

_POOL: Final = 2
"""Connections of one client: httpx looks at all of a client's connections for each call, several times over."""
_LONGEST_DETAIL: Final = 200
_KEY_STATUS: Final = frozenset({401, 403})
OPTIONAL: Final = ("temperature", "response_format")
"""Fields that some endpoints or models refuse (reasoning models a temperature), and that a call can do without."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A text with its token counts; None where the endpoint does not count."""

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """A call without a text."""

    cause: FailureCause
    detail: str
    again: bool
    """Whether another attempt may go better."""
    asked_wait: float | None = None
    drop: frozenset[str] = frozenset()
    """Optional fields that the endpoint names as the reason."""
    declined: bool = False
    """Whether the endpoint answered that it would not do it, and so wrote no tokens."""


class Endpoint:
    """One address, one model, at most so many calls at once; used and closed on one event loop."""

    def __init__(self, *, base_url: str, api_key: str | None, model: str, timeout_s: float, most: int) -> None:
        url = checked_url(base_url)
        if api_key is None and url.host == httpx.URL(OPENAI_URL).host:
            raise ConfigError(
                "this judge needs a key",
                field="OPENAI_API_KEY",
                fix="set it in the environment, or judge_base_url to an endpoint without keys",
            )
        self._url = f"{str(url).rstrip('/')}/chat/completions"
        self._model = model
        self._timeout_s = timeout_s
        self._key = _checked_key(api_key)
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
        prompt: JudgePrompt,
        *,
        response_format: Mapping[str, object],
        temperature: float,
        max_tokens: int | None,
        without: frozenset[str],
        wall: float,
    ) -> Reply | Trouble:
        """Send one call, leaving out the optional fields in `without`; raises nothing of the network's."""
        body: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
            "temperature": temperature,
            "response_format": response_format,
        }
        if max_tokens is not None:
            body["max_completion_tokens"] = max_tokens
        sent = {name: value for name, value in body.items() if name not in without}
        headers = {"Content-Type": "application/json"}
        try:
            # httpx limits each read; an endpoint that drips bytes must not take longer either.
            async with asyncio.timeout(self._timeout_s):
                response = await self._post(json.dumps(sent).encode(), headers)
        except (TimeoutError, httpx.TimeoutException):
            detail = f"no answer in {self._timeout_s:g} s"
            return Trouble(FailureCause.TIMED_OUT, detail, again=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            detail = f"the connection failed: {type(error).__name__}"
            return Trouble(FailureCause.DISCONNECTED, detail, again=True)
        if response.status_code == 200:
            return _reply(response)
        return self._trouble(response, frozenset(sent), wall)

    async def _post(self, content: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Send by the pool with the fewest calls under way."""
        pool = min(range(len(self._busy)), key=self._busy.__getitem__)
        self._busy[pool] += 1
        try:
            return await self._clients[pool].post(self._url, content=content, headers=headers)
        finally:
            self._busy[pool] -= 1

    def _trouble(self, response: httpx.Response, sent: frozenset[str], wall: float) -> Trouble:
        status = response.status_code
        asked = retry_after(response.headers.get("retry-after"), response.headers.get("date"), wall)
        passing = _passing(status)
        if passing is not None:
            return Trouble(passing, f"status {status}", True, asked, declined=True)
        if status in _KEY_STATUS:
            # Endpoints repeat parts of the key in this answer.
            detail = f"status {status}: the endpoint does not take the key"
            return Trouble(FailureCause.REFUSED, detail, again=False, declined=True)
        message, field = _said(response)
        drop = frozenset[str]()
        if status in (400, 422):
            named = [f for f in OPTIONAL if (f == field if field else f in message)]
            drop = sent.intersection(named)
        detail = f"status {status}" + (f": {self._clean(message)}" if message else "")
        return Trouble(FailureCause.REFUSED, detail, again=False, drop=drop, declined=True)

    def _clean(self, message: str) -> str:
        safe = message.replace(self._key, "***") if self._key else message
        return " ".join(safe.split())[:_LONGEST_DETAIL]


def _passing(status: int) -> FailureCause | None:
    """The cause of a status that another attempt may change."""
    if status == 429:
        return FailureCause.RATE_LIMITED
    if status == 408:
        return FailureCause.TIMED_OUT
    return FailureCause.SERVER_ERROR if status >= 500 else None


def checked_url(base_url: str) -> httpx.URL:
    """Return the address of a judge.

    Raises:
        ConfigError: it is none; the message does not show it.
    """
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query:
        raise ConfigError(
            "this is not the address of a judge (not shown, it may hold a secret)",
            field="judge_base_url",
            allowed="http:// or https://, no user, password or query",
            fix=f"for example {OPENAI_URL}",
        )
    return url


def _checked_key(api_key: str | None) -> str | None:
    key = api_key.strip() if api_key else None
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError("the key has characters that no header may hold (not shown)", field="OPENAI_API_KEY")
    return key or None


def _reply(response: httpx.Response) -> Reply | Trouble:
    body = _object(_json(response))
    choices = body.get("choices")
    first = _object(cast("list[object]", choices)[0]) if isinstance(choices, list) and choices else {}
    text = _object(first.get("message")).get("content")
    if not isinstance(text, str):
        return Trouble(FailureCause.NO_CONTENT, "the answer holds no text", again=True)
    usage = _object(body.get("usage"))
    return Reply(text, _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def _said(response: httpx.Response) -> tuple[str, str | None]:
    """The endpoint's message, and the field it is about."""
    body = _object(_json(response))
    error = _object(body.get("error"))
    message = error.get("message", body.get("detail", body.get("message", "")))
    field = error.get("param")
    return message if isinstance(message, str) else "", field if isinstance(field, str) else None


def _json(response: httpx.Response) -> object:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return None


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
