"""Event loops for code that awaits nothing: one that runs while a call lasts, and one of a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Self, TypeVar

T = TypeVar("T")


class BlockingLoop:
    """Event loop of code that waits for coroutines, also where its own thread runs a loop, as in a notebook.

    ::

        with BlockingLoop() as loop:
            result = loop.run(work())
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result, or raise the error, of a coroutine; an interrupt cancels it."""
        if not _on_a_loop():
            return self._runner.run(work)
        loop = self._runner.get_loop()
        task = loop.create_task(work)
        return _on_a_thread(lambda: loop.run_until_complete(task), lambda: loop.call_soon_threadsafe(task.cancel))

    def close(self) -> None:
        """Cancel what is left, and close the loop."""
        if not _on_a_loop():
            self._runner.close()
        else:
            _on_a_thread(self._runner.close)


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _on_a_thread(work: Callable[[], T], cancel: Callable[[], object] | None = None) -> T:
    """Return the result of work on a thread of its own; an interrupt here waits for the cancelled work's end."""
    outcome: Future[T] = Future()

    def act() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    try:  # an interrupt may come while the thread starts
        threading.Thread(target=act, daemon=True).start()  # one that cannot be cancelled does not hold up the exit
        return outcome.result()
    except BaseException:
        if cancel is not None and not outcome.done():
            cancel()
            wait([outcome])
        raise


class BackgroundLoop:
    """Event loop on a thread, started on first use."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, and return its future."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, seconds: float) -> None:
        """Cancel running coroutines, wait at most so long for them, and end the thread."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result(seconds)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
