"""Calls of users' functions: arguments as keys, exceptions as values, optionally in a process of their own."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from tinsmith.lab.experiment.key_text import OwnKey
from tinsmith.lab.user_task.task import Value
from tinsmith.types.errors import ConfigError, DataError, TaskError, TinsmithError, perhaps
from tinsmith.types.fingerprints import LATER
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
"""Places of files that are not the user's."""


@dataclass(frozen=True, slots=True)
class Raised:
    """Error that a function raised."""

    what: str  # `ValueError: no number`, in one line and without addresses, so that it is the same in every run.
    file: str  # The name of the file, without its folder; empty where it is not known.
    line: int  # 0: not known.
    error: BaseException = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return both, as in `my_task.py, line 12: ValueError: no number`."""
        return f"{self.file}, line {self.line}: {self.what}" if self.file else self.what


def attempt(function: Callable[..., T], *arguments: object) -> T | Raised:
    """Call a user's function; return its result, or the exception as a value.

    An interrupt goes through. Everything else is the user's own, whatever it is, and is theirs to be told.
    """
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        return raised(error)


def required(function: Callable[..., T], *arguments: object, field: str, value: object = None) -> T:
    """Return the result of a user's function; an exception becomes a DataError, by default on its argument."""
    found = attempt(function, *arguments)
    if isinstance(found, Raised):
        raise DataError(str(found), field=field, value=arguments[0] if value is None else value)
    return found


def raised(error: BaseException) -> Raised:
    """Return an exception as text with its location: the innermost frame outside of libraries."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith(_LIBRARIES):
        return Raised(_words(error, error.msg), Path(error.filename).name, error.lineno or 0, error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    if not own:
        return Raised(_words(error, str(error)), "", 0, error)
    last = own[-1]
    return Raised(_words(error, f"{error}{_meant(error)}"), Path(last.filename).name, last.lineno or 0, error)


def _meant(error: BaseException) -> str:
    """Return the most similar argument for an unknown one in a TypeError; empty for any other error."""
    found = _UNEXPECTED.match(str(error)) if isinstance(error, TypeError) else None
    if found is None:
        return ""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    known = frame.f_globals
    places = [known.get(found[1]), *(getattr(m, found[1], None) for m in known.values() if isinstance(m, ModuleType))]
    called = next((each for each in places if callable(each)), None)
    meant = None if called is None else perhaps(found[2], inspect.signature(called).parameters)
    return f"; {meant}" if meant else ""


def _words(error: BaseException, message: str) -> str:
    first = (message.strip().splitlines() or [""])[0]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    text = _ADDRESS.sub("0x...", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def mistake_in_file(raised: Raised, path: Path) -> TinsmithError:
    """Return the error for an exception in a user's file; an error of this package keeps its message, with the line."""
    error = raised.error
    if isinstance(error, TinsmithError):
        where = f"{raised.file}, line {raised.line}" if raised.file else path.name
        return error.located_at(where)
    where = str(raised) if raised.file else f"{path.name}: {raised}"
    return ConfigError(where, field="FILE.py", value=str(path))


F = TypeVar("F", bound=Callable[..., Any])
MoreKeys = Callable[[Mapping[str, str]], Sequence[OwnKey]]

_KINDS: Final = (str, int, float, bool)
_DESCRIBED: Final = re.compile(r"^( *)(\w+)(?: *\([^)]*\))?: +(\S.*(?:\n\1 +\S.*)*)", re.MULTILINE)
"""A docstring's line `name: words` on an argument; lines below it that stand further in go on."""
_MORE: Final = "tinsmith_more_keys"  # The attribute of a function with further keys.


def arguments_of(function: Callable[..., Any]) -> list[tuple[inspect.Parameter, Any, str]]:
    """Return a function's arguments, each with its type as it is annotated and what the docstring says of it."""
    hints = get_type_hints(function, include_extras=True)
    described = _DESCRIBED.findall(inspect.getdoc(function) or "")
    words = {name: " ".join(text.split()) for _, name, text in described}
    every = inspect.signature(function).parameters.values()
    return [(one, hints.get(one.name, type(one.default)), words.get(one.name, "")) for one in every]


def argument_keys(entry: Callable[..., Any], path: Path, texts: Mapping[str, str] | None = None) -> tuple[OwnKey, ...]:
    """Return a function's arguments as keys; `texts` are those on a command line."""
    arguments = attempt(arguments_of, entry)
    if isinstance(arguments, Raised):
        raise mistake_in_file(arguments, path)
    more: MoreKeys | None = vars(entry).get(_MORE)
    keys: dict[str, OwnKey] = {}
    for parameter, hint, words in arguments:
        if parameter.kind is parameter.VAR_KEYWORD and (more is not None or entry.__module__.startswith("tinsmith.")):
            continue  # its keys depend on others: see `with_keys`
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        plain = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        is_file = kind is Path and parameter.default == Path()
        if not is_file and (not plain or parameter.default is parameter.empty or kind not in _KINDS):
            what = f"{path.name}, line {entry.__code__.co_firstlineno}: this argument of task() cannot be a key"
            allowed = "an argument with a default that is a text, a number, True or False; or Path()"
            raise ConfigError(what, field=str(parameter), allowed=allowed)
        keys[parameter.name] = OwnKey(
            name=parameter.name,
            kind=str if is_file else cast("type[Value]", kind),
            default="" if is_file else cast(Value, parameter.default),
            words=words,
            is_file=is_file,
            later=LATER in marks,
        )
    if more is not None:
        keys |= {key.name: key for key in more(texts or {})}
    return tuple(keys.values())


def with_keys(more: MoreKeys) -> Callable[[F], F]:
    """Mark a function whose `**` argument takes further keys, which depend on the values of the others.

    `more` is called with the keys as they stand on a command line; a key of an argument's name stands in its place.
    """

    def marked(function: F) -> F:
        vars(function)[_MORE] = more
        return function

    return marked


Message = tuple[str, Mapping[str, Any], Any]  # Of the log: who was asked, what, and the reply.
_HEAD: Final = "from __future__ import annotations\nimport json, sys\nfrom random import Random\n"


def ask_apart(function: Callable[[dict[str, Any]], Any], request: Mapping[str, Any], log: list[Message]) -> list[Any]:
    """Have a function answer in a bare interpreter: no package, no environment, an empty folder.

    Its own source is all that it has, beside `json`, `sys` and `Random`. It is kept from what it is not sent, and not
    from files of this machine: this is no sandbox.
    """
    code = f"{_HEAD}{inspect.getsource(function)}\njson.dump({function.__name__}(json.load(sys.stdin)), sys.stdout)"
    command = [sys.executable, "-I", "-S", "-c", code]
    with tempfile.TemporaryDirectory() as empty:
        ran = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, cwd=empty, env={}, check=False
        )
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["without a word"])[-1]
        raise TaskError(f"{function.__name__} ended with exit code {ran.returncode}: {last}")
    reply = json.loads(ran.stdout)
    log.append((function.__name__, request, reply))
    return reply
