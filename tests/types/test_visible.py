"""Foreign text on a terminal: nothing in it acts, nothing of it is lost."""

import io
import json
import logging
import sys

import pytest
from rich.console import Console

from tinsmith.cli.columns import rows, wrapped
from tinsmith.lab.live.teller import Teller
from tinsmith.pages.console import console_table
from tinsmith.types.errors import DataError
from tinsmith.types.visible import VisibleFormatter, visible

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
