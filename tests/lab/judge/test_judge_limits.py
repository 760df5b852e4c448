"""The windows, in a time that passes only when everything waits."""

import asyncio
import heapq
import itertools
import math

import pytest

from tinsmith.lab.judge.chat_judge import WINDOW_S, CallLimits, Clock
from tinsmith.types.seeds import derive


class VirtualClock(Clock):
    """Wakes sleepers in the order of their moments, each when nothing else can go on."""

    def __init__(self) -> None:
        self.time = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.time + seconds, next(self._order), woken))
        await woken

    async def run(self, *tasks: asyncio.Task[None]) -> None:
        while not all(task.done() for task in tasks):
            for _ in range(8):
                await asyncio.sleep(0)
            if self._sleepers:
                self.time, _, woken = heapq.heappop(self._sleepers)
                woken.set_result(None)
        for task in tasks:
            task.result()


Call = tuple[float, float, int]


def drive(
    count: int,
    *,
    concurrency: int = 100,
    rpm: float = math.inf,
    tpm: float = math.inf,
    reserve: int = 100,
    latency: float | None = None,
    pause: float = 0.0,
) -> list[Call]:
    """Send calls; return (sent, answered, tokens that the server counts) of each."""

    async def main() -> list[Call]:
        clock = VirtualClock()
        limits = CallLimits(clock, concurrency=concurrency, rpm=rpm, tpm=tpm)
        limits.pause(pause)
        calls: list[Call] = []

        async def one(index: int) -> None:
            took = derive(0, "latency", index) % 20_000 / 1000 if latency is None else latency
            tokens = derive(0, "tokens", index) % reserve + 1
            async with limits.call(lambda: reserve) as slot:
                sent = clock.now()
                await clock.sleep(took)
                slot.tokens = tokens
                calls.append((sent, clock.now(), tokens))

        await clock.run(*(asyncio.create_task(one(i)) for i in range(count)))
        return calls

    return asyncio.run(main())


def most_in_a_minute(events: list[tuple[float, int]]) -> int:
    return max(sum(n for at, n in events if begin <= at < begin + WINDOW_S) for begin, _ in events)


@pytest.mark.parametrize("counted", ["when sent", "when answered", "in between"])
def test_no_minute_holds_more_calls_than_the_limit_wherever_the_server_counts(counted: str) -> None:
    calls = drive(60, rpm=10)
    share = {"when sent": 0.0, "when answered": 1.0, "in between": 0.5}[counted]
    assert len(calls) == 60
    assert most_in_a_minute([(s + share * (a - s), 1) for s, a, _ in calls]) <= 10


def test_the_limit_of_calls_is_used() -> None:
    calls = drive(30, rpm=10, latency=0.0)
    assert most_in_a_minute([(sent, 1) for sent, _, _ in calls]) == 10
    assert 2 * WINDOW_S <= max(sent for sent, _, _ in calls) < 2 * WINDOW_S + 1


@pytest.mark.parametrize("answered", [False, True])
def test_no_minute_holds_more_tokens_than_the_limit(answered: bool) -> None:
    calls = drive(60, tpm=400)
    events = [(a if answered else s, tokens) for s, a, tokens in calls]
    assert 200 < most_in_a_minute(events) <= 400


def test_a_call_above_the_limit_goes_alone() -> None:
    calls = sorted(drive(3, tpm=50, latency=1.0))
    assert [sent for sent, _, _ in calls] == pytest.approx([0.0, 61.0, 122.0], abs=0.01)


def test_no_more_at_once_than_the_limit_and_without_limits_all_at_once() -> None:
    def at_once(calls: list[Call]) -> int:
        return max(sum(s <= moment < a for s, a, _ in calls) for moment, _, _ in calls)

    assert at_once(drive(20, concurrency=4, latency=1.0)) == 4
    assert at_once(drive(20, latency=1.0)) == 20


def test_a_pause_holds_for_every_call() -> None:
    assert min(sent for sent, _, _ in drive(3, pause=7.0)) >= 7.0
