"""The boundary to a user's functions: what they raise is a value that says what and where, never a traceback."""

from __future__ import annotations

import inspect
import os
import re
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from tinsmith.types.errors import ConfigError, TinsmithError, perhaps
from tinsmith.types.source import PACKAGE

T = TypeVar("T")

_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{4,}")
_UNEXPECTED: Final = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")
_LONGEST: Final = 200
_LIBRARIES: Final = (
    "<",  # methods that Python wrote itself
    str(PACKAGE) + os.sep,
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
"""Where files are that are not the user's."""


@dataclass(frozen=True, slots=True)
class Raised:
    """What a function raised."""

    what: str
    """`ValueError: no number`, in one line and without addresses, so that it is the same in every run."""
    file: str
    """The name of the file, without its folder; empty where it is not known."""
    line: int
    """0: not known."""
    error: BaseException = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return both, as in `my_task.py, line 12: ValueError: no number`."""
        return f"{self.file}, line {self.line}: {self.what}" if self.file else self.what


def attempt(function: Callable[..., T], *arguments: object) -> T | Raised:
    """Call a user's function; return what it returns, or what it raised.

    An interrupt goes through. Everything else is the user's own, whatever it is, and is theirs to be told.
    """
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        return raised(error)


def raised(error: BaseException) -> Raised:
    """Say what an error is, and where it came up: the deepest place that is no library's."""
    if isinstance(error, SyntaxError) and error.filename and not _of_library(error.filename):
        return Raised(_words(error, error.msg), Path(error.filename).name, error.lineno or 0, error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _of_library(frame.filename)]
    if not own:
        return Raised(_words(error, str(error)), "", 0, error)
    last = own[-1]
    return Raised(_words(error, f"{error}{_meant(error)}"), Path(last.filename).name, last.lineno or 0, error)


def _meant(error: BaseException) -> str:
    """Return which argument was probably meant where a function has none of a name; empty for any other error."""
    found = _UNEXPECTED.match(str(error)) if isinstance(error, TypeError) else None
    if found is None:
        return ""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    known = frame.f_globals
    places = [known.get(found[1]), *(getattr(m, found[1], None) for m in known.values() if isinstance(m, ModuleType))]
    called = next((each for each in places if callable(each)), None)
    meant = None if called is None else perhaps(found[2], inspect.signature(called).parameters)
    return f"; {meant}" if meant else ""


def _of_library(file: str) -> bool:
    return file.startswith(_LIBRARIES)


def _words(error: BaseException, message: str) -> str:
    first = (message.strip().splitlines() or [""])[0]
    told = f"{type(error).__name__}: {first}" if first else type(error).__name__
    told = _ADDRESS.sub("0x...", told)
    return told if len(told) <= _LONGEST else told[: _LONGEST - 3] + "..."


def mistake_in_file(found: Raised, path: Path) -> TinsmithError:
    """Return the error that tells of a mistake in the file: what is ours says what it has to say, with the line."""
    error = found.error
    if isinstance(error, TinsmithError):
        where = f"{found.file}, line {found.line}" if found.file else path.name
        return error.located_at(where)
    where = str(found) if found.file else f"{path.name}: {found}"
    return ConfigError(where, field="FILE.py", value=str(path))
