"""`tinsmith` as on the command line, in this process."""

import io
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tinsmith.cli import main


class Ran(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


class Terminal(io.StringIO):
    """Text that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def keys_in(text: str) -> dict[str, str]:
    """Return keys and their values, written as on the command line."""
    return dict(part.split("=", 1) for part in text.split())


def command(capsys: pytest.CaptureFixture[str], *words: object) -> Ran:
    """Give a command. Whatever it refuses or loses is told in at most five lines."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main([*map(str, words)])
    written = capsys.readouterr()
    code = caught.value.code or 0
    assert isinstance(code, int)
    refusal = written.err.rpartition("tinsmith: ")[2]  # a slow machine says before it that it goes on
    assert code not in (2, 3) or len(refusal.strip().splitlines()) <= 5, written.err
    return Ran(code, written.out, written.err)
