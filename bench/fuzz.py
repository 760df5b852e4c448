"""Clients that behave badly, against a server on a real socket: fuzzed requests, and streams that are left.

    python bench/fuzz.py [--requests 10000] [--streams 256] [--seed 1]

The requests go over all routes (tests/shared/bad_requests.py), sixteen at a time, and are the same ones for the same
seed. Each must be answered with a status below 500 within a minute. Of the streams, each is left at a drawn moment;
then the KV cache must have as many free pages as before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shared"))

import httpx
import uvicorn
import uvloop
from bad_requests import LIMITS, NANO, Bad, BadRequests, routes_of
from fastapi import FastAPI
from tenants import ring, secret

from tinsmith.engine.engine import Engine
from tinsmith.server import app as routes
from tinsmith.server.access.limits import Limits
from tinsmith.server.app import build_app
from tinsmith.server.service import Service

HANG_S, AT_ONCE, MAX_BODY = 60.0, 16, 1 << 20
NAMES = ("alice", "bob")


@dataclass(frozen=True)
class Served:
    """A server in a thread of this process."""

    service: Service
    app: FastAPI
    url: str

    def client(self, name: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"x-api-key": secret(name)},
            timeout=HANG_S,
            limits=httpx.Limits(max_connections=None),
        )

    def num_pages(self) -> int:
        """Pages in use or set aside, once what was posted to the compute thread was carried out."""
        return self.service.worker.call(
            lambda: sum(s.pool.capacity - s.pool.available for s in self.service.engine.samplers)
        ).result(HANG_S)


@contextmanager
def served(state: Path) -> Iterator[Served]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    ready: Future[tuple[Service, FastAPI, uvicorn.Server]] = Future()

    async def main() -> None:
        service = Service(Engine({NANO: NANO}), state, seed=0, max_queue=4096)
        keys = ring(*NAMES, limits={"alice": LIMITS, "bob": Limits()})
        app = build_app(service, key=keys, max_body=MAX_BODY)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False))
        ready.set_result((service, app, server))
        await server.serve(sockets=[listener])
        await service.close()

    thread = threading.Thread(target=lambda: uvloop.run(main()))
    thread.start()
    service, app, server = ready.result(HANG_S)
    try:
        yield Served(service, app, f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join()


async def furnish(http: httpx.AsyncClient) -> tuple[str, str, str, str]:
    """Make a session, a model, a sampling session and a request that is answered."""

    async def post(path: str, body: dict[str, Any]) -> Any:
        answer = await http.post(f"/api/v1/{path}", json=body)
        answer.raise_for_status()
        return answer.json()

    session = (await post("create_session", {}))["session_id"]
    asked = {"session_id": session, "base_model": NANO}
    made = await post("create_model", {**asked, "model_seq_id": 0, "lora_config": {"rank": 4}})
    await post("retrieve_future", {"request_id": made["request_id"]})
    model = made["model_id"]
    save = await post("save_weights", {"model_id": model, "seq_id": 1, "path": "x"})
    await post("retrieve_future", {"request_id": save["request_id"]})
    sampler = await post("create_sampling_session", {**asked, "sampling_session_seq_id": 0})
    return session, model, sampler["sampling_session_id"], made["request_id"]


async def fuzz(server: Served, count: int, seed: int) -> tuple[Counter[int], list[str]]:
    """Send the requests; return how often each status came, and what went wrong."""
    statuses: Counter[int] = Counter()
    wrong: list[str] = []
    async with server.client("alice") as http:
        ids = await furnish(http)
        routes.POLL_SECONDS = 0.05  # a poll that waits is no hang
        every = sorted(routes_of(server.app) - {("POST", "/api/v1/unload_model")})
        bad = BadRequests(every, ids, secret("alice"), seed)
        waiting = iter([bad.draw() for _ in range(count)])

        async def work() -> None:
            for asked in waiting:
                try:
                    status = await send(http, asked)
                except (httpx.HTTPError, TimeoutError) as error:
                    wrong.append(f"{asked.method} {asked.path[:80]}: {type(error).__name__}")
                    continue
                statuses[status] += 1
                if status >= 500:
                    wrong.append(f"{status} {asked}"[:1000])

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        (await http.get("/api/v1/healthz")).raise_for_status()
    return statuses, wrong


async def send(http: httpx.AsyncClient, asked: Bad) -> int:
    headers = {name: value.encode("latin-1") for name, value in asked.headers.items()}
    request = http.request(asked.method, asked.path, headers=headers, content=asked.content)
    return (await asyncio.wait_for(request, HANG_S)).status_code


async def leave_streams(server: Served, count: int, seed: int) -> Counter[str]:
    """Open streams at once and leave each at a drawn moment; return how they ended."""
    rng = random.Random(seed)
    moments = [rng.uniform(0.0, 2.0) for _ in range(count)]
    said = [{"role": "user", "content": "Say something."}]
    ended: Counter[str] = Counter()

    async def one(http: httpx.AsyncClient, seconds: float, i: int) -> None:
        asked = {"model": NANO, "messages": said, "max_tokens": 400, "stream": True, "seed": i}

        async def read() -> None:
            async with http.stream("POST", "/v1/chat/completions", json=asked) as answer:
                answer.raise_for_status()
                async for _ in answer.aiter_bytes():
                    pass

        try:
            await asyncio.wait_for(read(), seconds)
        except TimeoutError:
            ended["left"] += 1
        else:
            ended["read to the end"] += 1

    limits = httpx.Limits(max_connections=count)
    headers = {"x-api-key": secret("bob")}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=HANG_S, limits=limits) as http:
        await asyncio.gather(*(one(http, seconds, i) for i, seconds in enumerate(moments)))
    return ended


def pages_after(server: Served, before: int) -> tuple[int, float]:
    """Wait until the pages are as before, at most as long as a hang; return them and the seconds that it took."""
    begin = time.monotonic()
    while server.num_pages() != before and time.monotonic() - begin < HANG_S:
        time.sleep(0.01)
    return server.num_pages(), time.monotonic() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "state") as server:
        begin = time.monotonic()
        statuses, wrong = asyncio.run(fuzz(server, given.requests, given.seed))
        seconds = time.monotonic() - begin
        before, _ = pages_after(server, 0)
        usage = server.service.futures.usage
        pending = usage.num_requests
        ended = asyncio.run(leave_streams(server, given.streams, given.seed))
        after, waited = pages_after(server, before)
        print(
            json.dumps(
                {
                    "requests": given.requests,
                    "seconds": round(seconds, 1),
                    "routes": len(routes_of(server.app)),
                    "statuses": {str(s): n for s, n in sorted(statuses.items())},
                    "5xx and hangs": len(wrong),
                    "streams": dict(ended),
                    "pages before": before,
                    "pages after": after,
                    "seconds until then": round(waited, 3),
                    "requests still counted": usage.num_requests - pending,
                },
                indent=1,
            )
        )
        for line in wrong[:20]:
            print(line)
    return 1 if wrong or after != before or usage.num_requests != pending else 0


if __name__ == "__main__":
    sys.exit(main())
