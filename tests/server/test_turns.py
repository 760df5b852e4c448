"""Work beside the event loop: whose turn it is, and how much of one key's there is at once."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from coroutines import Script, coroutine_test
from starlette.requests import Request

from running import HANG_S
from tinsmith.server.access.caller import Call, answering, caller
from tinsmith.server.access.turns import ROOM, SMALL, Turns


def run(script: Script) -> None:
    async def main() -> None:
        turns = Turns()
        try:
            await asyncio.wait_for(script(turns), HANG_S)
        finally:
            turns.close()

    asyncio.run(main())


with_turns = coroutine_test(run)


async def of(name: str, turns: Turns, work: Callable[[], object]) -> object:
    with answering(Call(name)):
        return await turns.run(work)


@with_turns
async def test_many_pieces_of_one_key_keep_no_other_key_waiting(turns: Turns) -> None:
    over, done = threading.Event(), list[str]()

    def long() -> None:
        assert over.wait(HANG_S)
        done.append("alice")

    many = [asyncio.create_task(of("alice", turns, long)) for _ in range(20)]
    await asyncio.sleep(0)
    assert await of("bob", turns, lambda: done.append("bob")) is None
    assert done == ["bob"]
    over.set()
    await asyncio.gather(*many)
    assert done.count("alice") == 20


@with_turns
async def test_a_key_has_one_piece_of_work_at_a_time(turns: Turns) -> None:
    under_way, most = 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        with lock:
            under_way -= 1

    await asyncio.gather(*(of("alice", turns, work) for _ in range(50)))
    assert most == 1


@with_turns
async def test_work_is_done_with_the_eyes_of_who_asked_and_its_errors_are_theirs(turns: Turns) -> None:
    assert await of("alice", turns, caller) == "alice"

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await of("alice", turns, fails)
    assert await of("alice", turns, caller) == "alice"


@with_turns
async def test_bodies_of_one_key_wait_for_room_and_small_ones_do_not(turns: Turns) -> None:
    read: list[str] = []
    ended = {name: asyncio.Event() for name in ("first", "second", "other", "small")}

    async def body(key: str, name: str, size: int) -> None:
        async def receive() -> dict[str, object]:
            read.append(name)
            await ended[name].wait()
            return {"type": "http.request", "body": b"x", "more_body": False}

        headers = [(b"content-length", str(size).encode())]
        with answering(Call(key)):
            await turns.read(Request({"type": "http", "headers": headers}, receive), len)

    tasks = [
        asyncio.create_task(body(*each))
        for each in (("alice", "first", ROOM), ("alice", "second", ROOM // 2), ("bob", "other", ROOM))
    ]
    tasks.append(asyncio.create_task(body("alice", "small", SMALL)))
    while len(read) < 3:
        await asyncio.sleep(0)
    assert set(read) == {"first", "other", "small"}
    ended["first"].set()
    while "second" not in read:
        await asyncio.sleep(0)
    for each in ended.values():
        each.set()
    await asyncio.gather(*tasks)


@with_turns
async def test_a_body_keeps_the_room_it_takes_until_its_request_is_answered(turns: Turns) -> None:
    answered, read = asyncio.Event(), list[str]()

    async def request(name: str, size: int) -> None:
        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"x" * size, "more_body": False}

        with answering(Call("alice")):  # nobody says how long it is
            assert size == await turns.read(Request({"type": "http", "headers": []}, receive), len)
            read.append(name)
            await answered.wait()

    requests = (("small", SMALL), ("large", ROOM - SMALL), ("one too many", 1))
    tasks = [asyncio.create_task(request(*each)) for each in requests]
    while len(read) < 2:
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert read == ["small", "large"]
    answered.set()
    await asyncio.gather(*tasks)
    assert read == ["small", "large", "one too many"]
