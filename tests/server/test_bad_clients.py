"""Clients that behave badly: what they send is wrong, they leave in the middle, or they do not read."""

import asyncio
import json
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from bad_requests import LIMITS, BadRequests, routes_of
from tenants import NANO, Tenants, sample, secret, with_tenants
from training_requests import forward_backward

from running import HANG_S, KEY, Running
from tinsmith.engine.sequences import Group
from tinsmith.server import app as routes
from tinsmith.server import spread
from tinsmith.server.service import Service

pytestmark = pytest.mark.whole

NUM_REQUESTS, NUM_STREAMS = 500, 64
Message = MutableMapping[str, Any]


@with_tenants("alice", limits={"alice": LIMITS})
async def test_no_bad_request_breaks_the_server(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = tenants["alice"]
    session = await alice.session()
    model, sampler = await alice.model(session), await alice.sampler(session)
    await alice.done("save_weights", {"model_id": model, "seq_id": 1, "path": "x"})
    request = f"{model}:0:create_model"
    ids = (session, model, sampler, request)
    every = sorted(routes_of(tenants.app) - {("POST", "/api/v1/unload_model"), ("GET", "/")})
    bad = BadRequests(every, ids, secret("alice"), seed=1)
    monkeypatch.setattr(routes, "POLL_SECONDS", 0.0)
    transport = httpx.ASGITransport(tenants.app, raise_app_exceptions=False)
    seen: set[str] = set()
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
        for i in range(NUM_REQUESTS):
            requests = bad.draw()
            headers = {k: v.encode("latin-1") for k, v in requests.headers.items()}
            answer = await asyncio.wait_for(
                http.request(requests.method, requests.path, headers=headers, content=requests.content), HANG_S
            )
            assert answer.status_code < 500, (i, requests, answer.text)
            assert answer.content or requests.method == "HEAD", (i, requests)
            open_path = requests.path == "/" or requests.path.startswith(("/api/v1/healthz", "/api/v1/external_files/"))
            assert requests.signed or open_path or answer.status_code == 401, (i, requests)
            seen.add(requests.path.split("/")[-1])
    assert len(seen) > 40
    monkeypatch.undo()
    await alice.done("forward_backward", forward_backward(model, 2))
    await alice.done("asample", sample(sampler, 10**6, seed=1))
    assert tenants.num_pages() == 0


@with_tenants("alice")
async def test_numbers_beyond_any_vocabulary_are_refused(tenants: Tenants) -> None:
    alice, most = tenants["alice"], 2**63
    words = [{"role": "user", "content": "Hi"}]
    for path, body in (
        ("completions", {"prompt": "a", "logprobs": most}),
        ("chat/completions", {"messages": words, "logprobs": True, "top_logprobs": most}),
    ):
        answer = await alice.post(f"/v1/{path}", {"model": NANO, "max_tokens": 1} | body)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"].endswith("logprobs")


Reader = Callable[[Message], Awaitable[None]]


async def stream(tenants: Tenants, read: Reader, left: asyncio.Event, **given: object) -> None:
    """Ask for a stream of 200 tokens; `left` says when the client is gone."""
    sentence: list[dict[str, str]] = [{"role": "user", "content": "Say something."}]
    question = {"model": NANO, "messages": sentence, "max_tokens": 200, "stream": True, "seed": 1} | given
    await post(tenants, "/v1/chat/completions", question, read, left)


async def post(tenants: Tenants, path: str, asked: dict[str, object], read: Reader, left: asyncio.Event) -> None:
    """Ask as a client that is gone once `left` says so."""
    body: list[Message] = [{"type": "http.request", "body": json.dumps(asked).encode()}]

    async def receive() -> Message:
        if body:
            return body.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    scope: Message = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": "POST", "scheme": "http", "path": path, "query_string": b"",
        "raw_path": path.encode(), "root_path": "", "server": ("here", 80),
        "headers": [(b"x-api-key", secret("alice").encode())], "client": ("there", 1),
    }  # fmt: skip
    await tenants.app(scope, receive, read)


async def settled(service: Service) -> None:
    """Return once the compute thread has carried out what was posted so far."""
    await asyncio.wrap_future(service.worker.call(lambda: None))


async def all_ended(service: Service) -> None:
    """Return once nothing is sampled any more."""
    for _ in range(10_000):
        await settled(service)
        if not service.samplers.under_way:
            return
    raise TimeoutError("samples never end")


@with_tenants("alice")
async def test_streams_that_are_left_free_their_pages(tenants: Tenants) -> None:
    rng = random.Random(1)
    lines: list[int] = []

    async def leave() -> None:
        left, most, count = asyncio.Event(), rng.randrange(40), 0

        async def read(message: Message) -> None:
            nonlocal count
            count += bool(message.get("body"))
            if count >= most:
                left.set()

        await asyncio.wait_for(stream(tenants, read, left, n=rng.randrange(1, 4)), HANG_S)
        lines.append(count)

    await asyncio.gather(*(leave() for _ in range(NUM_STREAMS)))
    await settled(tenants.service)  # what was dropped was posted before
    assert not tenants.service.samplers.under_way
    assert not tenants.service.samplers.watched
    assert tenants.num_pages() == 0
    assert tenants.service.futures.usage.num_requests == 0
    assert min(lines) < 100, "nobody left in the middle"


@with_tenants("alice")
async def test_figures_that_nobody_waits_for_are_not_computed(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "LOOK_SECONDS", 0.0)
    sampler, statuses, left = tenants.service.engine.sampler(NANO), list[int](), asyncio.Event()
    loop = asyncio.get_running_loop()

    def never() -> list[Group]:
        loop.call_soon_threadsafe(left.set)
        return []

    async def read(message: Message) -> None:
        statuses.append(message.get("status", 0))

    monkeypatch.setattr(sampler, "step", never)
    calls: dict[str, object] = {"model": NANO, "sequences": [[1, 2, 3]] * 3}
    await asyncio.wait_for(post(tenants, spread.ROUTE, calls, read, left), HANG_S)
    await settled(tenants.service)
    assert statuses[0] == 499
    assert not tenants.service.samplers.under_way


@with_tenants("alice")
async def test_a_reader_that_does_not_read_holds_nobody_up(tenants: Tenants) -> None:
    reads, left, got = asyncio.Event(), asyncio.Event(), list[bytes]()
    first = asyncio.Event()

    async def read_nothing(message: Message) -> None:
        got.append(message.get("body", b""))
        first.set()
        await reads.wait()

    async def read(message: Message) -> None:
        whole.append(message.get("body", b""))

    whole: list[bytes] = []
    slow = asyncio.create_task(stream(tenants, read_nothing, left))
    await asyncio.wait_for(first.wait(), HANG_S)
    alice = tenants["alice"]
    sampler = await alice.sampler(await alice.session())
    await alice.done("asample", sample(sampler, 0))  # somebody else's
    await asyncio.wait_for(stream(tenants, read, asyncio.Event()), HANG_S)
    await all_ended(tenants.service)
    assert not slow.done()
    assert len(got) == 1
    assert tenants.num_pages() == 0  # its sample went on without it
    reads.set()
    await asyncio.wait_for(slow, HANG_S)

    def text(chunks: list[bytes]) -> str:
        events = b"".join(chunks).decode().split("\n\n")
        messages = [json.loads(e.removeprefix("data: ")) for e in events if e.startswith("data: {")]
        return "".join(c["choices"][0]["delta"].get("content", "") for c in messages)

    assert text(got) == text(whole) != ""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("server") / "state")
    try:
        yield running
    finally:
        running.stop()


def begun_stream(server: Running) -> socket.socket:
    """Ask for a long unread through a connection that takes as little as it can, and read its first bytes."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    body = json.dumps({"model": NANO, "prompt": "a", "max_tokens": 900, "n": 8, "stream": True})
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    connection.sendall((head + body).encode())
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def complete(server: Running) -> str:
    body = {"model": NANO, "prompt": "tin", "max_tokens": 5, "temperature": 0.0}
    answer = server.http.post("/v1/completions", json=body, headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def test_streams_that_nobody_reads_hold_nobody_up(server: Running) -> None:
    alone = complete(server)
    unread = [begun_stream(server) for _ in range(4)]
    assert [complete(server) for _ in range(3)] == [alone] * 3
    for connection in unread:
        connection.close()
    assert complete(server) == alone
    assert server.complaints == []


def test_half_a_request_is_a_clients_mistake(tmp_path: Path) -> None:
    server = Running(tmp_path / "state")
    try:
        host, _, port = server.url.removeprefix("http://").partition(":")
        head = f"POST /api/v1/asample HTTP/1.1\r\nhost: {host}\r\nx-api-key: {KEY}\r\n"
        with socket.create_connection((host, int(port)), timeout=HANG_S) as connection:
            connection.sendall(f"{head}content-length: 90\r\n\r\n{{".encode())
        counted = server.http.get("/metrics").text
        assert 'status="5' not in counted
        assert server.complaints == []
    finally:
        server.stop()
