"""Code that waits for coroutines, on a thread with a loop and without."""

import asyncio
import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from tinsmith.types.loops import BlockingLoop

NAMED: ContextVar[str] = ContextVar("NAMED", default="nobody")


def at_once(cell: Callable[[], None]) -> None:
    cell()


def in_a_notebook(cell: Callable[[], None]) -> None:
    async def kernel() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as kernels do
        cell()

    asyncio.run(kernel())


either = pytest.mark.parametrize("where", [at_once, in_a_notebook])


@either
def test_coroutines_are_waited_for_one_after_the_other(where: Callable[[Callable[[], None]], None]) -> None:
    async def named(text: str) -> tuple[str, str, asyncio.AbstractEventLoop]:
        await asyncio.sleep(0)
        return text, NAMED.get(), asyncio.get_running_loop()

    def cell() -> None:
        NAMED.set("me")
        with BlockingLoop() as loop:
            first, second = loop.run(named("a")), loop.run(named("b"))
        assert first[:2] == ("a", "me")
        assert second == ("b", "me", first[2])
        assert first[2].is_closed()

    where(cell)


@either
@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3)])
def test_an_error_comes_through(where: Callable[[Callable[[], None]], None], error: BaseException) -> None:
    async def failing() -> None:
        raise error

    def cell() -> None:
        with BlockingLoop() as loop, pytest.raises(type(error)) as raised:
            loop.run(failing())
        assert raised.value is error

    where(cell)


@either
def test_an_interrupt_cancels_the_work_and_leaves_nothing_running(where: Callable[[Callable[[], None]], None]) -> None:
    ended: list[str] = []

    async def endless() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    def cell() -> None:
        with BlockingLoop() as loop, pytest.raises(KeyboardInterrupt):
            loop.run(endless())
        assert ended == ["cancelled"]

    where(cell)
