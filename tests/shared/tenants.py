"""A service with several keys, in this process and without a network: one HTTP client for each key."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from coroutines import Script, coroutine_test
from fastapi import FastAPI

from tinsmith.engine.engine import Engine
from tinsmith.server.access.guard import Observer
from tinsmith.server.access.keys import Key, Keys, digest
from tinsmith.server.access.limits import UNLIMITED, Limits
from tinsmith.server.app import build_app
from tinsmith.server.service import Service

NANO = "tinsmith/nano"
MAX_BODY = 1 << 20
PROMPT = {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]}


def secret(name: str) -> str:
    """The key of this name."""
    return f"tml-of-{name}-and-nobody-else"


def ring(*names: str, limits: Mapping[str, Limits] | None = None) -> Keys:
    """Keys of these names."""
    own = limits or {}
    return Keys(tuple(Key(n, digest(secret(n).encode()), own.get(n, UNLIMITED)) for n in names))


class Tenant:
    """One key's client."""

    def __init__(self, app: FastAPI, name: str) -> None:
        self.name = name
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://here",
            headers={"x-api-key": secret(name)},
            timeout=None,
        )

    async def post(self, path: str, body: Mapping[str, Any] | bytes) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.post(path, content=content)

    async def ok(self, path: str, body: Mapping[str, Any] | bytes) -> Any:
        """POST; return the answer's JSON, which must be 200."""
        answer = await self.post(f"/api/v1/{path}", body)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    async def result(self, request_id: str) -> httpx.Response:
        """Wait for a request's result."""
        return await self.post("/api/v1/retrieve_future", {"request_id": request_id})

    async def done(self, path: str, body: Mapping[str, Any] | bytes) -> httpx.Response:
        """POST, and wait for the result, which must be no failure."""
        answer = await self.result((await self.ok(path, body))["request_id"])
        assert answer.status_code == 200, answer.text
        assert b'"error"' not in answer.content, answer.text
        return answer

    async def session(self) -> str:
        return str((await self.ok("create_session", {}))["session_id"])

    async def model(self, session: str, seq: int = 0, **lora: object) -> str:
        """Make a model, and wait for it."""
        requests = {"session_id": session, "model_seq_id": seq, "base_model": NANO}
        made = await self.done("create_model", {**requests, "lora_config": {"rank": 4, **lora}})
        return str(made.json()["model_id"])

    async def sampler(self, session: str, seq: int = 0, **source: object) -> str:
        request = {"session_id": session, "sampling_session_seq_id": seq}
        made = await self.ok("create_sampling_session", request | (source or {"base_model": NANO}))
        return str(made["sampling_session_id"])


def sample(sampler: str, seq_id: int, *, num_samples: int = 1, **params: object) -> dict[str, Any]:
    """A sampling request of a few tokens."""
    return {
        "sampling_session_id": sampler,
        "seq_id": seq_id,
        "prompt": PROMPT,
        "sampling_params": {"max_tokens": 4, **params},
        "num_samples": num_samples,
    }


@dataclass(frozen=True)
class Tenants:
    """The service, its application, and a client for each key."""

    service: Service
    app: FastAPI
    keys: Keys
    by_name: Mapping[str, Tenant]

    def __getitem__(self, name: str) -> Tenant:
        return self.by_name[name]

    def num_pages(self) -> int:
        """Pages of the KV cache that are in use or set aside."""
        samplers = self.service.engine.samplers
        return sum(sampler.pool.capacity - sampler.pool.available for sampler in samplers)


def let(
    engine: Engine,
    state: Path,
    names: tuple[str, ...],
    script: Callable[[Tenants], Awaitable[None]],
    *,
    limits: Mapping[str, Limits] | None = None,
    observers: tuple[Observer, ...] = (),
) -> None:
    """Run a script against a service on `state` that has the keys of these names."""

    async def live() -> None:
        service = Service(engine, state, seed=0, max_queue=4096)
        keys = ring(*names, limits=limits)
        app = build_app(service, key=keys, max_body=MAX_BODY, observers=observers)
        try:
            async with AsyncExitStack() as clients:
                by_name = {name: Tenant(app, name) for name in names}
                for tenant in by_name.values():
                    await clients.enter_async_context(tenant.http)
                await script(Tenants(service, app, keys, by_name))
        finally:
            await service.close()

    asyncio.run(live())


def with_tenants(*names: str, **options: Any) -> Callable[[Script], Callable[..., None]]:
    """Decorate a coroutine function that tests a service with the keys of these names; `options` are those of `let`."""

    def run(script: Script, engine: Engine, state: Path) -> None:
        let(engine, state, names, script, **options)

    return coroutine_test(run, "engine", "state")
