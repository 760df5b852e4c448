"""Lines on waits of unknown length: soon, then ever more seldom; in a terminal in one place; of the innermost wait."""

import io
import sys
from threading import Event

import pytest

from tinsmith.types.waits import Ticks, loading, tell, ticking, unsaid


class Terminal(io.StringIO):
    """A standard error that a person looks at."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_wait_in_a_pipe_is_told_of_within_two_seconds_and_then_ever_more_seldom() -> None:
    clock, said = Clock(), list[str]()
    ticks = Ticks("packing", said.append, clock)
    due = [1.0]
    while due[-1] < 100.0:
        clock.now = due[-1]
        due.append(clock.now + ticks.tick())
    assert due == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 62.0, 92.0, 122.0]
    assert said[:3] == ["packing, 1 s", "packing, 2 s", "packing, 4 s"]


def test_a_wait_says_how_far_it_is_and_is_put_off_by_another_line() -> None:
    clock, said, step = Clock(), list[str](), 0
    ticks = Ticks(lambda: f"step {step} of 9", said.append, clock)
    clock.now = 0.75
    ticks.heard()
    clock.now = 1.0
    assert ticks.tick() == 0.75
    step, clock.now = 4, 1.75
    ticks.tick()
    assert said == ["step 4 of 9, 2 s"]


def test_a_terminal_counts_the_seconds_in_one_line_that_other_lines_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "14")
    ticks = Ticks("exporting \x07 it", None, clock)
    clock.now = 3.0
    assert ticks.tick() == ticks.tick() == 1.0
    assert screen.getvalue() == "\rexporting \\u0\x1b[K"
    with ticking("exporting"):
        tell("half of it")
    assert screen.getvalue().endswith("\r\x1b[Khalf of it\n\r\x1b[K")


def test_only_the_innermost_wait_is_told_of_and_a_short_or_a_quiet_one_is_not() -> None:
    said, heard = list[str](), Event()

    def say(line: str) -> None:
        said.append(line)
        heard.set()

    with ticking("a moment", say):
        pass
    with ticking("the whole", lambda line: said.append(line)), ticking("a part", say), ticking("quiet", unsaid):
        assert heard.wait(60.0)
    assert [line.partition(",")[0] for line in said] == ["a part"] * len(said)


def test_errors_of_the_body_pass_and_leave_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(ValueError, match="broken"), loading():
        raise ValueError("broken")
    before = screen.getvalue()
    tell("later")
    assert screen.getvalue() == before + "later\n"
