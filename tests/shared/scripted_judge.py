"""An OpenAI-compatible endpoint on loopback that answers by a script, in the test's own event loop."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from running import HANG_S
from tinsmith.lab.judge.chat_judge import ChatJudge, Clock
from tinsmith.lab.judge.prompting import JudgeRequest, Question, VerdictCache
from tinsmith.lab.judge.records import Answered, ChatSettings, JudgeFailure

KEY = "sk-test-0123456789-secret"


@dataclass(frozen=True)
class Say:
    """One scripted answer; `body` may be made from the request."""

    status: int = 200
    body: str | Callable[[Any], str] = ""
    headers: tuple[str, ...] = ()
    hang: bool = False
    drop: bool = False
    drip: bool = False
    """Bytes come without an end, none late by itself."""


def completion(text: str, *, prompt_tokens: int = 100, completion_tokens: int = 20) -> str:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"index": 0, "message": message}], "usage": usage})


def ratings(*each: str) -> str:
    return json.dumps({"ratings": [{"rating": one, "rationale": f"{one}."} for one in each]})


def criteria_in(request: Any) -> int:
    found = re.search(r"exactly (\d+) rating", request["messages"][-1]["content"])
    return int(found[1])


def all_yes(request: Any) -> str:
    return completion(ratings(*["Yes"] * criteria_in(request)))


YES = Say(body=all_yes)


def refused(status: int, message: str = "no", param: str | None = None, *headers: str) -> Say:
    return Say(status, json.dumps({"error": {"message": message, "param": param}}), headers)


@dataclass
class ScriptedJudge:
    """Answers with the script in order, then with `then`; keeps what it was asked."""

    script: list[Say] = field(default_factory=list)
    then: Say = YES
    gate: int = 0
    """Answers are held back until so many calls are in flight."""
    requests: list[Any] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    most_at_once: int = 0
    _at_once: int = 0

    async def __aenter__(self) -> "ScriptedJudge":
        self._forever = asyncio.Event()
        self._full = asyncio.Event()
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._forever.set()
        self._server.close()
        await self._server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("POST /v1/chat/completions ")
        names = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        lower = {name.lower(): value for name, value in names.items()}
        request = json.loads(await reader.readexactly(int(lower["content-length"])))
        self.requests.append(request)
        self.authorizations.append(lower.get("authorization"))
        say = self.script.pop(0) if self.script else self.then
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        if self._at_once >= self.gate:
            self._full.set()
        try:
            if say.hang:
                await self._forever.wait()
            if say.hang or say.drop:
                return False
            if self.gate:
                await self._full.wait()
            if say.drip:
                return await _drip(writer)
        finally:
            self._at_once -= 1
        body = (say.body if isinstance(say.body, str) else say.body(request)).encode()
        lines = [f"HTTP/1.1 {say.status} Scripted", f"Content-Length: {len(body)}", *say.headers]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return True


async def _drip(writer: asyncio.StreamWriter) -> bool:
    count = 50_000
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n".encode())
    for _ in range(count):
        if writer.is_closing():
            return False
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0)
    return True


class InstantClock(Clock):
    """Time passes only by being waited for; nothing is really waited for."""

    def __init__(self, *, wall: float = 0.0) -> None:
        self.time = 0.0
        self.started = wall
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.started + self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def asks(
    server: ScriptedJudge,
    questions: Sequence[JudgeRequest] | Sequence[Question[Any]],
    *,
    clock: InstantClock | None = None,
    cache: VerdictCache | None = None,
    **settings: Any,
) -> list[Answered[Any] | JudgeFailure]:
    """Return what a judge on the endpoint answers to requests for verdicts, or to questions."""

    async def main() -> list[Answered[Any] | JudgeFailure]:
        async with server:
            made = ChatSettings(judge_model="m", judge_base_url=server.url, **settings)
            async with ChatJudge(made, cache=cache, api_key=KEY, clock=clock or InstantClock()) as judge:
                ask: Any = judge.judge_all if isinstance(questions[0], JudgeRequest) else judge.ask_all
                return await ask(questions)

    return asyncio.run(main())


@contextmanager
def judge_server(*script: Say, then: Say = YES) -> Iterator[ScriptedJudge]:
    """Run a scripted judge in a thread of its own, for code that has no event loop."""
    judge = ScriptedJudge(script=list(script), then=then)
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with judge:
            ready.set()
            await ended.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(HANG_S)
        yield judge
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
