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


def command(capsys: pytest.CaptureFixture[str], *words: object, code: int | None = None) -> Ran:
    """Give a command, which must end with `code` if one is given. Refusals and losses are at most five lines."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main([*map(str, words)])
    written = capsys.readouterr()
    ended = caught.value.code or 0
    assert isinstance(ended, int)
    ran = Ran(ended, written.out, written.err)
    assert code in (None, ended), ran
    refusal = ran.err.rpartition("tinsmith: ")[2]  # a slow machine says before it that it goes on
    assert ran.code not in (2, 3) or len(refusal.strip().splitlines()) <= 5, ran.err
    return ran
