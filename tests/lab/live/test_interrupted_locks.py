"""Interrupts that find a lock of the whole process taken."""

import logging
import signal
import threading

import pytest

from tinsmith.lab.live.interrupts import Interrupts


class InterruptedLock:
    """A lock of logging's, whose taker is interrupted when it has it and nothing would give it back."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.taken = 0

    def acquire(self) -> None:
        self.lock.acquire()
        self.taken += 1
        if self.taken == 1:
            signal.raise_signal(signal.SIGINT)

    def release(self) -> None:
        self.lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *raised: object) -> None:
        self.release()


def _name_a_logger() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    with Interrupts().noticed():
        logging.getLogger("of.a.library.that.nobody.has")
        signal.pause()  # until the signal is sent again


def test_an_interrupt_waits_until_no_lock_of_the_process_can_stay_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = InterruptedLock()
    before = signal.getsignal(signal.SIGINT)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(logging, "_lock", lock)
            with pytest.raises(KeyboardInterrupt):
                _name_a_logger()
    finally:
        signal.signal(signal.SIGINT, before)
    assert lock.taken >= 1
    others: list[bool] = []
    thread = threading.Thread(target=lambda: others.append(lock.lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    assert others == [True]
