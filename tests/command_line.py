"""`tinsmith` as on the command line, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tinsmith.cli import main


class Ran(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


def command(capsys: pytest.CaptureFixture[str], *first: str) -> Run:
    """Return what runs `tinsmith FIRST ...` with further words."""

    def run(*words: object) -> Ran:
        with pytest.raises(SystemExit) as caught:
            main([*first, *map(str, words)])
        written = capsys.readouterr()
        code = caught.value.code or 0
        assert isinstance(code, int)
        return Ran(code, written.out, written.err)

    return run
