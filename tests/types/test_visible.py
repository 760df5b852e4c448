"""Text on a terminal: foreign text acts on nothing, and lines on waits come ever more seldom."""

import io
import json
import logging
import subprocess
import sys
from itertools import pairwise
from threading import Event

import pytest
from rich.console import Console

from tinsmith.cli.columns import rows, wrapped
from tinsmith.lab.live.teller import Teller
from tinsmith.pages.console import console_table
from tinsmith.types.errors import DataError
from tinsmith.types.visible import VisibleFormatter, visible
from tinsmith.types.waits import Ticks, loading, tell, ticking, unsaid

ACTS = [
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\r",
    "\x08",
    "\x7f",
    "\x9b31m",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u2028",
    "\ud800",
]


@pytest.mark.parametrize("text", ACTS)
def test_what_acts_on_a_terminal_becomes_its_escape(text: str) -> None:
    shown = visible(f"a{text}b")
    assert not any(character in shown for character in "\x1b\x07\r\x08\x7f\x9b\u202e\u2066\u2028\ud800")
    assert json.loads(f'"{shown}"') == f"a{text}b"


@pytest.mark.parametrize("text", ["plain", "two\nlines\twide", "naïve 漢字 עברית 👩‍🔬", "\\u001b"])
def test_other_text_stays(text: str) -> None:
    assert visible(text) == text
    whole = json.dumps({"a": [text]}, indent=1, ensure_ascii=False)
    assert json.loads(visible(whole)) == {"a": [text]}


def test_whatever_quotes_foreign_text_shows_it_harmless() -> None:
    foreign = "\x1b]0;pwned\x07"
    error = DataError(f"it says {foreign}", field=foreign, value=foreign, allowed=foreign, fix=foreign)
    assert "\x1b" not in str(error) + str(error.located_at(foreign)) + str(error.reworded(lambda text: text + foreign))
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "%s", (foreign,), None)
    out = io.StringIO()
    teller = Teller(name="run", steps=1, out=out)
    teller.say(foreign)
    Console(file=out, force_terminal=False).print(console_table(foreign, [foreign], [(foreign, foreign)]))
    shown = [out.getvalue(), VisibleFormatter().format(record), *rows([(foreign, foreign)], None), wrapped(foreign, 80)]
    assert "\x1b" not in "".join(shown)
    assert all("\\u001b" in one for one in shown)


def test_a_lone_surrogate_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print(visible("\udc80"), file=sys.stdout)
    assert capsys.readouterr().out == "\\udc80\n"


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


def test_a_wait_in_a_pipe_has_a_line_every_two_seconds_and_then_after_a_tenth_of_what_it_took() -> None:
    clock, words = Clock(), list[str]()
    ticks = Ticks("packing", words.append, clock=clock)
    due = [1.0]
    while due[-1] < 100.0:
        clock.now = due[-1]
        due.append(clock.now + ticks.tick())
    assert due[:4] == [1.0, 3.0, 5.0, 7.0]
    gaps = [later - sooner for sooner, later in pairwise(due)]
    assert gaps == pytest.approx([max(2.0, sooner / 10) for sooner in due[:-1]])
    assert words[:3] == ["packing, 1 s so far", "packing, 3 s so far", "packing, 5 s so far"]
    clock.now = 4000.0
    assert ticks.tick() == 30.0, "also after an hour"


def test_lines_that_replace_one_another_come_every_second() -> None:
    clock = Clock()
    ticks = Ticks("packing", list[str]().append, replaces=True, clock=clock)
    clock.now = 100.0
    assert ticks.tick() == 1.0


def test_a_wait_says_how_far_it_is_and_is_put_off_by_another_line() -> None:
    clock, answer, step = Clock(), list[str](), 0
    ticks = Ticks(lambda: f"step {step} of 9", answer.append, clock=clock)
    clock.now = 0.75
    ticks.postpone()
    clock.now = 1.0
    assert ticks.tick() == 1.75
    step, clock.now = 4, 2.75
    ticks.tick()
    assert answer == ["step 4 of 9, 3 s so far"]


def test_a_terminal_counts_the_seconds_in_one_line_that_other_lines_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "14")
    ticks = Ticks("exporting \x07 it", None, clock=clock)
    clock.now = 3.0
    assert ticks.tick() == ticks.tick() == 1.0
    assert screen.getvalue() == "\rexporting \\u0\x1b[K"
    with ticking("exporting"):
        tell("half of it")
    assert screen.getvalue().endswith("\r\x1b[Khalf of it\n\r\x1b[K")


def test_only_the_innermost_wait_is_told_of_and_a_short_or_a_quiet_one_is_not() -> None:
    sentence, postpone = list[str](), Event()

    def say(line: str) -> None:
        sentence.append(line)
        postpone.set()

    with ticking("a moment", say):
        pass
    with ticking("the whole", lambda line: sentence.append(line)), ticking("a part", say), ticking("quiet", unsaid):
        assert postpone.wait(60.0)
    assert [line.partition(",")[0] for line in sentence] == ["a part"] * len(sentence)


def test_errors_of_the_body_pass_and_leave_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(ValueError, match="broken"), loading():
        raise ValueError("broken")
    before = screen.getvalue()
    tell("later")
    assert screen.getvalue() == before + "later\n"


def test_an_interrupt_while_libraries_are_loaded_ends_the_process_in_a_line() -> None:
    # As torch's libraries do, which import anew what an interrupt ended, and fail.
    body = "try:\n  signal.raise_signal(2)\n except KeyboardInterrupt:\n  raise RuntimeError"
    code = f"import signal\nfrom tinsmith.types.waits import loading\nwith loading():\n {body}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.strip()) == (130, "tinsmith: interrupted; nothing has begun")
    after = "import signal\nfrom tinsmith.types.waits import loading\nwith loading(): pass\nsignal.raise_signal(2)"
    ended = subprocess.run([sys.executable, "-c", after], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in ended.stderr
